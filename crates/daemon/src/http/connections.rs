//! The open connections. A connection without the token gives way to a new one, so that clients
//! without the token cannot lock out a client that has it. It gives way only after it was served
//! once, so that a request that has already arrived is always read. When the token is replaced, the
//! connections that sent the old one count as connections without the token again.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::token::Validity;

/// All open connections.
pub struct Connections {
    max: usize,
    max_unauthenticated: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: usize,
    authenticated: usize,
    next: u64,
    /// Connections that can give way: they were served once and did not send the token. By peer,
    /// oldest first.
    unauthenticated: HashMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

/// Whether there is a place for a new connection.
pub enum Admission {
    /// There is one.
    Admitted(Place),
    /// There will be one, as soon as the other new connections were served once.
    Wait,
    /// All places are taken by authenticated clients.
    Full,
}

impl Table {
    /// Removes a connection that can give way. Returns what closes it, if it was there.
    fn remove(&mut self, peer: IpAddr, number: u64) -> Option<Arc<Notify>> {
        let of_peer = self.unauthenticated.get_mut(&peer)?;
        let removed = of_peer.remove(&number);
        if of_peer.is_empty() {
            self.unauthenticated.remove(&peer);
        }
        removed
    }

    fn close_oldest(&mut self, peer: IpAddr) -> bool {
        let of_peer = self.unauthenticated.get(&peer);
        let oldest = of_peer.and_then(|all| all.keys().next().copied());
        let closed = oldest.and_then(|oldest| self.remove(peer, oldest));
        if let Some(closed) = &closed {
            closed.notify_one();
        }
        closed.is_some()
    }

    /// Closes the oldest unauthenticated connection of the peer that has most of them.
    fn close_one(&mut self) -> bool {
        let largest = self.unauthenticated.iter().max_by_key(|(_, all)| all.len());
        let largest = largest.map(|(peer, _)| *peer);
        largest.is_some_and(|peer| self.close_oldest(peer))
    }
}

impl Connections {
    /// `max_unauthenticated` applies to each peer.
    pub fn new(max: usize, max_unauthenticated: usize) -> Arc<Self> {
        Arc::new(Connections {
            max,
            max_unauthenticated: max_unauthenticated.max(1),
            table: Mutex::default(),
        })
    }

    /// Adds a connection, and closes another one if necessary.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Admission {
        let peer = peer_of(address);
        let mut table = self.table.lock();
        let of_peer = table.unauthenticated.get(&peer).map_or(0, BTreeMap::len);
        if of_peer >= self.max_unauthenticated {
            table.close_oldest(peer);
        }
        if table.open >= self.max && !table.close_one() {
            return match table.authenticated < table.open {
                true => Admission::Wait,
                false => Admission::Full,
            };
        }
        let number = table.next;
        table.next += 1;
        table.open += 1;
        Admission::Admitted(Place(Arc::new(Connection {
            all: Arc::clone(self),
            peer,
            number,
            has_request: AtomicBool::new(false),
            token: Mutex::new(None),
            token_arrived: Notify::new(),
        })))
    }

    /// Closes one connection to free its descriptor. Returns false if all are authenticated.
    pub fn close_one(&self) -> bool {
        self.table.lock().close_one()
    }
}

/// The place of one open connection. It is free when this is dropped.
pub struct Place(pub Arc<Connection>);

/// One open connection. Its requests know it.
pub struct Connection {
    all: Arc<Connections>,
    peer: IpAddr,
    number: u64,
    has_request: AtomicBool,
    /// Validity of the token that arrived. It is there if and only if the connection is counted in
    /// `Table::authenticated`. It is changed while the table is locked.
    token: Mutex<Option<Validity>>,
    token_arrived: Notify,
}

impl Connection {
    /// Called for each request.
    pub fn requested(&self) {
        self.has_request.store(true, Ordering::Relaxed);
    }

    /// Called when a request has the token. The connection does not give way as long as the token is
    /// valid.
    pub fn authenticated(&self, validity: Validity) {
        if self.is_authenticated() {
            return;
        }
        let mut table = self.all.table.lock();
        table.remove(self.peer, self.number);
        let old = self.token.lock().replace(validity);
        table.authenticated += usize::from(old.is_none());
        self.token_arrived.notify_one();
    }

    fn is_authenticated(&self) -> bool {
        let token = self.token.lock();
        token.as_ref().is_some_and(Validity::is_current)
    }

    /// Lets the connection give way, unless its token is valid. Returns the validity of its token,
    /// or what tells that it gives way.
    fn give_way(&self) -> Result<Validity, Arc<Notify>> {
        let mut table = self.all.table.lock();
        let mut token = self.token.lock();
        match token.as_ref().filter(|validity| validity.is_current()) {
            Some(validity) => Ok(validity.clone()),
            None => {
                table.authenticated -= usize::from(token.take().is_some());
                let closed = Arc::new(Notify::new());
                let of_peer = table.unauthenticated.entry(self.peer).or_default();
                of_peer.insert(self.number, Arc::clone(&closed));
                Err(closed)
            }
        }
    }

    /// Waits until the connection must be closed: it gives way to another one, or its first request
    /// did not arrive in time. It can give way from the first call on.
    pub async fn must_close(&self, first_request: Duration) {
        let overdue = async {
            tokio::time::sleep(first_request).await;
            if self.has_request.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        let mut overdue = std::pin::pin!(overdue);
        loop {
            match self.give_way() {
                Ok(validity) => validity.ended().await,
                Err(closed) => tokio::select! {
                    () = &mut overdue => return,
                    () = self.token_arrived.notified() => {}
                    () = closed.notified() => match self.is_authenticated() {
                        // The token arrived at the last moment.
                        true => {}
                        false => return,
                    },
                },
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let connection = &self.0;
        let mut table = connection.all.table.lock();
        table.remove(connection.peer, connection.number);
        table.open -= 1;
        let was_authenticated = connection.token.lock().is_some();
        table.authenticated -= usize::from(was_authenticated);
    }
}

/// The address that counts as one peer. A client with IPv6 usually has a whole /64 network.
pub fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::token::BearerToken;
    use futures::FutureExt;
    use futures::future::BoxFuture;

    const NEVER: Duration = Duration::from_secs(3600);

    struct Client {
        place: Place,
        closing: BoxFuture<'static, ()>,
    }

    impl Client {
        /// A connection that was served once, if there is a place.
        fn new(all: &Arc<Connections>, last: u8) -> Option<Client> {
            let Admission::Admitted(place) = all.admit(IpAddr::from([10, 0, 0, last])) else {
                return None;
            };
            let own = Arc::clone(&place.0);
            let closing = async move { own.must_close(NEVER).await }.boxed();
            let mut client = Client { place, closing };
            assert!(!client.is_closed());
            Some(client)
        }

        fn is_closed(&mut self) -> bool {
            (&mut self.closing).now_or_never().is_some()
        }
    }

    fn closed(clients: &mut [Client]) -> Vec<bool> {
        clients.iter_mut().map(Client::is_closed).collect()
    }

    #[tokio::test]
    async fn the_oldest_connection_of_the_largest_peer_gives_way() {
        let all = Connections::new(4, 10);
        let open = [1, 2, 2, 3, 4].map(|peer| Client::new(&all, peer).expect("a place"));
        let mut open = Vec::from(open);
        assert_eq!(closed(&mut open), [false, true, false, false, false]);
        drop(open);
        let table = all.table.lock();
        assert_eq!((table.open, table.unauthenticated.len()), (0, 0));
    }

    fn token() -> BearerToken {
        let mut token = BearerToken::new("old".to_owned());
        token.save = Some(Box::new(|_| Ok(())));
        token
    }

    /// The holder of the old token must not lock out the holder of the new one.
    #[tokio::test]
    async fn connections_give_way_after_their_token_was_replaced() {
        let all = Connections::new(2, 10);
        let token = token();
        let mut open = [1, 2].map(|peer| Client::new(&all, peer).expect("a place"));
        for client in &mut open {
            client.place.0.authenticated(token.current().validity());
            assert!(!client.is_closed());
        }
        assert!(Client::new(&all, 3).is_none());
        assert!(token.replace("new".to_owned(), || ()).is_ok());
        assert_eq!(closed(&mut open), [false, false]);
        assert_eq!(all.table.lock().authenticated, 0);
        // One of them sends the new token.
        open[0].place.0.authenticated(token.current().validity());
        let mut new = Client::new(&all, 3).expect("a place");
        assert_eq!(closed(&mut open), [false, true]);
        assert!(!new.is_closed());
        new.place.0.authenticated(token.current().validity());
        assert_eq!(all.table.lock().authenticated, 2);
        drop((open, new));
        let table = all.table.lock();
        assert_eq!((table.open, table.authenticated), (0, 0));
        assert!(table.unauthenticated.is_empty());
    }

    #[tokio::test]
    async fn authenticated_connections_do_not_give_way() {
        let all = Connections::new(2, 10);
        let token = token();
        let mut one = Client::new(&all, 1).expect("a place");
        one.place.0.authenticated(token.current().validity());
        let mut two = Client::new(&all, 1).expect("a place");
        let three = Client::new(&all, 2).expect("a place");
        assert!(!one.is_closed() && two.is_closed());
        drop(two);
        three.place.0.authenticated(token.current().validity());
        let address = IpAddr::from([10, 0, 0, 3]);
        assert!(matches!(all.admit(address), Admission::Full));
        drop(one);
        let new = all.admit(address);
        assert!(matches!(new, Admission::Admitted(_)));
        // A new connection is served before it gives way.
        assert!(matches!(all.admit(address), Admission::Wait));
    }

    #[tokio::test]
    async fn each_peer_has_its_own_limit() {
        let all = Connections::new(100, 2);
        let mut other = Client::new(&all, 9).expect("a place");
        let open = [1; 4].map(|peer| Client::new(&all, peer).expect("a place"));
        let mut open = Vec::from(open);
        assert_eq!(closed(&mut open), [true, true, false, false]);
        assert!(!other.is_closed());
        let network = |text: &str| peer_of(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }
}
