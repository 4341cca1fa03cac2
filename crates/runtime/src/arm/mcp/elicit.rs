//! Questions of an MCP server: an elicitation becomes an `agent-prompt`, and the answer becomes its
//! result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, ErrorData,
    FormElicitationCapability, Implementation, ProtocolVersion, UrlElicitationCapability,
};
use rmcp::service::{RequestContext, RoleClient};
use serde_json::Value;

use super::super::elicitation::{ElicitationResult, Form};
use super::super::permissions::PermissionBroker;
use super::transport::Shared;

/// The client side of the MCP connection.
pub struct Handler {
    pub shared: Arc<Shared>,
    pub broker: PermissionBroker,
    question_count: AtomicU64,
}

impl Handler {
    pub fn new(shared: Arc<Shared>, broker: PermissionBroker) -> Self {
        Handler {
            shared,
            broker,
            question_count: AtomicU64::new(0),
        }
    }

    /// Asks the question. Outside a turn the result is `cancel`, because there is no one to ask.
    async fn ask(&self, params: &Value) -> ElicitResult {
        let current = self.shared.slot.current();
        let Some(events) = current.as_deref().and_then(|current| current.events()) else {
            return ElicitResult::new(ElicitationAction::Cancel);
        };
        let form = Form::new(params);
        let number = self.question_count.fetch_add(1, Ordering::Relaxed) + 1;
        match self.broker.ask(form.question(number), events).await {
            Ok(answer) => to_mcp(form.result(answer)),
            Err(error) => {
                if let Some(current) = &current {
                    current.finish(super::super::slot::End::Error(error));
                }
                ElicitResult::new(ElicitationAction::Cancel)
            }
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        let client_info = Implementation::new("agentproto", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, client_info)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let params = serde_json::to_value(&request).unwrap_or(Value::Null);
        Ok(self.ask(&params).await)
    }

    /// Handles forms with a schema that is wider than the protocol's. The library passes them on
    /// here.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "elicitation/create" {
            let what = format!("unsupported method `{}`", request.method);
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, what, None));
        }
        let result = self.ask(&request.params.unwrap_or(Value::Null)).await;
        let result = serde_json::to_value(result).unwrap_or(Value::Null);
        Ok(CustomResult::new(result))
    }
}

fn to_mcp(result: ElicitationResult) -> ElicitResult {
    match result {
        ElicitationResult::Accept(None) => ElicitResult::new(ElicitationAction::Accept),
        ElicitationResult::Accept(Some(content)) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content)
        }
        ElicitationResult::Decline => ElicitResult::new(ElicitationAction::Decline),
        ElicitationResult::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}
