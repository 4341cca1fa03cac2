//! The open connections. A connection without the token gives way to a new one, so that clients
//! without the token cannot lock out a client that has it.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// All open connections.
pub struct Connections {
    max: usize,
    max_unauthenticated: usize,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: usize,
    next: u64,
    /// Connections without the token by peer, oldest first.
    unauthenticated: HashMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

impl Table {
    /// Removes a connection that has not authenticated. Returns what closes it, if it was there.
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
            self.open -= 1;
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

    /// Adds a connection. Returns `None` if all places are taken by authenticated clients.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Connection>> {
        let peer = peer_of(address);
        let mut table = self.table.lock();
        let of_peer = table.unauthenticated.get(&peer).map_or(0, BTreeMap::len);
        if of_peer >= self.max_unauthenticated {
            table.close_oldest(peer);
        }
        if table.open >= self.max && !table.close_one() {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.open += 1;
        let closed = Arc::new(Notify::new());
        let of_peer = table.unauthenticated.entry(peer).or_default();
        of_peer.insert(number, Arc::clone(&closed));
        Some(Arc::new(Connection {
            all: Arc::clone(self),
            peer,
            number,
            closed,
            has_request: AtomicBool::new(false),
            is_authenticated: AtomicBool::new(false),
        }))
    }

    /// Closes one connection to free its descriptor. Returns false if all are authenticated.
    pub fn close_one(&self) -> bool {
        self.table.lock().close_one()
    }
}

/// One open connection. Its place is free when it is dropped.
pub struct Connection {
    all: Arc<Connections>,
    peer: IpAddr,
    number: u64,
    closed: Arc<Notify>,
    has_request: AtomicBool,
    is_authenticated: AtomicBool,
}

impl Connection {
    /// Called for each request.
    pub fn requested(&self) {
        self.has_request.store(true, Ordering::Relaxed);
    }

    /// Called when a request has the token. From now on the connection does not give way.
    pub fn authenticated(&self) {
        if self.is_authenticated.load(Ordering::Relaxed) {
            return;
        }
        // If it is not in the table, it is being closed.
        let kept = self.all.table.lock().remove(self.peer, self.number);
        self.is_authenticated
            .store(kept.is_some(), Ordering::Relaxed);
    }

    /// Waits until the connection must be closed: it gives way to another one, or its first request
    /// did not arrive in time.
    pub async fn must_close(&self, first_request: Duration) {
        let overdue = async {
            tokio::time::sleep(first_request).await;
            if self.has_request.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.closed.notified() => {}
            () = overdue => {}
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut table = self.all.table.lock();
        let was_waiting = table.remove(self.peer, self.number).is_some();
        if was_waiting || *self.is_authenticated.get_mut() {
            table.open -= 1;
        }
    }
}

/// The address that counts as one peer. A client with IPv6 usually has a whole /64 network.
fn peer_of(address: IpAddr) -> IpAddr {
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
    use futures::FutureExt;

    const NEVER: Duration = Duration::from_secs(3600);

    fn admit(all: &Arc<Connections>, last: u8) -> Option<Arc<Connection>> {
        all.admit(IpAddr::from([10, 0, 0, last]))
    }

    fn is_closed(connection: &Connection) -> bool {
        connection.must_close(NEVER).now_or_never().is_some()
    }

    #[tokio::test]
    async fn the_oldest_connection_of_the_largest_peer_gives_way() {
        let all = Connections::new(4, 10);
        let mut open: Vec<_> = [1, 2, 2, 3]
            .map(|peer| admit(&all, peer).expect("a place"))
            .into();
        open.push(admit(&all, 4).expect("a place"));
        let closed: Vec<bool> = open.iter().map(|one| is_closed(one)).collect();
        assert_eq!(closed, [false, true, false, false, false]);
        assert_eq!(all.table.lock().open, 4);
        drop(open);
        let table = all.table.lock();
        assert_eq!((table.open, table.unauthenticated.len()), (0, 0));
    }

    #[tokio::test]
    async fn authenticated_connections_do_not_give_way() {
        let all = Connections::new(2, 10);
        let one = admit(&all, 1).expect("a place");
        one.authenticated();
        let two = admit(&all, 1).expect("a place");
        let three = admit(&all, 2).expect("a place");
        assert!(!is_closed(&one) && is_closed(&two));
        three.authenticated();
        assert!(admit(&all, 3).is_none(), "all places are taken");
        drop(one);
        assert!(admit(&all, 3).is_some());
    }

    #[tokio::test]
    async fn each_peer_has_its_own_limit() {
        let all = Connections::new(100, 2);
        let other = admit(&all, 9).expect("a place");
        let open: Vec<_> = (0..4).map(|_| admit(&all, 1).expect("a place")).collect();
        let closed: Vec<bool> = open.iter().map(|one| is_closed(one)).collect();
        assert_eq!(closed, [true, true, false, false]);
        assert!(!is_closed(&other));
        let network = |text: &str| peer_of(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }
}
