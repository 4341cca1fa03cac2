//! An MCP server over HTTP: called once, with the headers that the client gave for it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

use crate::rpc::Refusal;

/// A server that does not answer is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_ANSWER: u64 = 1 << 20;

#[derive(Clone)]
pub struct Address {
    name: String,
    host: String,
    path: String,
    headers: Vec<(String, String)>,
}

pub fn address(server: &Value) -> Result<Address, Refusal> {
    let word = |key: &str| {
        let text = server.get(key).and_then(Value::as_str);
        text.ok_or_else(|| Refusal::params(format!("an MCP server lacks `{key}`")))
    };
    let (name, url) = (word("name")?, word("url")?);
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(Refusal::params("the mock reaches http:// only"));
    };
    let (host, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let Some(Value::Array(list)) = server.get("headers") else {
        return Err(Refusal::params("an MCP server lacks `headers`"));
    };
    let mut headers = Vec::new();
    for header in list {
        let part = |key: &str| header.get(key).and_then(Value::as_str);
        let (Some(name), Some(value)) = (part("name"), part("value")) else {
            return Err(Refusal::params("`headers` have names and values"));
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let texts = headers
        .iter()
        .flat_map(|(name, value)| [name.as_str(), value]);
    if texts
        .chain([url])
        .any(|text| text.contains(char::is_control))
    {
        return Err(Refusal::params(
            "an MCP server is named with a control character",
        ));
    }
    Ok(Address {
        name: name.to_owned(),
        host: host.to_owned(),
        path: path.to_owned(),
        headers,
    })
}

/// Sends one message, without waiting for what becomes of it.
pub fn greet(address: &Address, message: &Value) {
    let (address, body) = (address.clone(), message.to_string());
    std::thread::spawn(move || {
        if let Err(error) = post(&address, &body) {
            eprintln!("mock: MCP server {}: {error}", address.name);
        }
    });
}

fn post(address: &Address, body: &str) -> io::Result<()> {
    let place = match address.host.contains(':') {
        true => address.host.clone(),
        false => format!("{}:80", address.host),
    };
    let mut places = place.to_socket_addrs()?;
    let place = places.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
    let mut stream = TcpStream::connect_timeout(&place, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\n",
        address.path, address.host
    );
    for (name, value) in &address.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = body.len();
    head.push_str(&format!(
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ));
    stream.write_all(head.as_bytes())?;
    io::copy(&mut stream.take(LONGEST_ANSWER), &mut io::sink())?;
    Ok(())
}
