//! MCP servers over HTTP. The mock calls each one once, with the headers from the client.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::Request;

use crate::rpc::RpcError;

/// Timeout of one call.
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_RESPONSE_BYTES: u64 = 1 << 20;

#[derive(Clone)]
pub struct ServerAddress {
    name: String,
    request: Request<()>,
}

pub fn address(server: &Value) -> Result<ServerAddress, RpcError> {
    let word = |key: &str| {
        let text = server.get(key).and_then(Value::as_str);
        text.ok_or_else(|| RpcError::params(format!("an MCP server has no `{key}`")))
    };
    let (name, url) = (word("name")?, word("url")?);
    if !url.starts_with("http://") {
        return Err(RpcError::params("the mock supports only http:// URLs"));
    }
    let Some(Value::Array(list)) = server.get("headers") else {
        return Err(RpcError::params("an MCP server has no `headers`"));
    };
    let mut request = Request::post(url);
    for header in list {
        let part = |key: &str| header.get(key).and_then(Value::as_str);
        let (Some(name), Some(value)) = (part("name"), part("value")) else {
            return Err(RpcError::params(
                "every entry of `headers` must have a name and a value",
            ));
        };
        request = request.header(name, value);
    }
    let request = request
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("connection", "close")
        .body(());
    Ok(ServerAddress {
        name: name.to_owned(),
        request: request
            .map_err(|error| RpcError::params(format!("invalid MCP server: {error}")))?,
    })
}

impl ServerAddress {
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Sends one request, and returns the response.
pub fn exchange(address: &ServerAddress, message: &Value) -> Result<Value, String> {
    let request = address.request.clone().map(|()| message.to_string());
    let body = post(request).map_err(|error| error.to_string())?;
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// Sends one message in the background, and ignores the response.
pub fn send_initialize(address: &ServerAddress, message: &Value) {
    let (name, body) = (address.name.clone(), message.to_string());
    let request = address.request.clone().map(|()| body);
    std::thread::spawn(move || {
        if let Err(error) = post(request) {
            eprintln!("mock: MCP server {name}: {error}");
        }
    });
}

fn post(request: Request<String>) -> Result<Vec<u8>, ureq::Error> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .build()
        .into();
    let answer = agent.run(request)?.into_body().into_reader();
    let mut body = Vec::new();
    answer.take(MAX_RESPONSE_BYTES).read_to_end(&mut body)?;
    Ok(body)
}
