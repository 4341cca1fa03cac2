//! A server in the test process, with configurable limits.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use super::host::Host;
use super::served::{Answer, HANG};
use agentproto_daemon::http::server::{self, ServerLimits};
use agentproto_daemon::http::{AppState, ClientRates, HostNames, Timeouts, router};
use agentproto_daemon::mcp::{self, ToolOptions};
use serde_json::Value;
use tokio::sync::watch;

pub struct Near {
    pub host: Host,
    pub address: String,
    pub stop: watch::Sender<bool>,
}

impl Near {
    pub async fn new(limits: ServerLimits, rates: ClientRates, times: Timeouts) -> Near {
        Near::at("127.0.0.1", Host::new(), limits, rates, times).await
    }

    /// A server for the given host, with default limits.
    pub async fn of(host: Host) -> Near {
        let (limits, rates, times) = (
            ServerLimits::default(),
            ClientRates::default(),
            Timeouts::default(),
        );
        Near::at("127.0.0.1", host, limits, rates, times).await
    }

    pub async fn at(
        place: &str,
        host: Host,
        limits: ServerLimits,
        rates: ClientRates,
        times: Timeouts,
    ) -> Near {
        let listener = tokio::net::TcpListener::bind((place, 0))
            .await
            .expect("bound");
        let address = listener.local_addr().expect("bound").to_string();
        let names = HostNames {
            beyond_loopback: place != "127.0.0.1",
            ..HostNames::default()
        };
        let door = AppState::new(host.registry.clone(), "secret".into(), names);
        let door = Arc::new(door.with_rates(rates).with_timeouts(times));
        let (stop, stopped) = watch::channel(false);
        let mcp = mcp::service(host.registry.clone(), ToolOptions::default());
        let app = router(door, axum::Router::new().fallback_service(mcp));
        tokio::spawn(server::serve(listener, app, None, limits, stopped));
        Near {
            host,
            address,
            stop,
        }
    }

    pub fn open(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("connected");
        stream.set_read_timeout(Some(HANG)).expect("set");
        stream
    }

    pub fn ask(&self, path: &str, token: &str) -> Answer {
        let mut stream = self.open();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n",
            self.address
        );
        let _ = stream.write_all(request.as_bytes());
        Answer::read(stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask(path, "secret")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, "", body)
    }

    pub fn post_with(&self, path: &str, headers: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let mut stream = self.open();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer secret\r\n\
             Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        let _ = stream.write_all(request.as_bytes());
        Answer::read(stream)
    }

    /// Calls one tool without an MCP session. Returns the response's `result`.
    pub fn tool(&self, name: &str, arguments: &Value) -> Value {
        let version = "2026-07-28";
        let call = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": name, "arguments": arguments, "_meta": {
                "io.modelcontextprotocol/protocolVersion": version,
                "io.modelcontextprotocol/clientCapabilities": {},
            } },
        });
        let headers = format!(
            "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: {version}\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {name}\r\n"
        );
        let answer = self.post_with("/mcp", &headers, &call);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["result"].clone()
    }
}
