//! Requests of clients: the request of any dialect, in one common form. All members are optional. A
//! request without known members becomes a question without messages.

use serde_json::Value;

/// Wire format of a vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini generateContent.
    Gemini,
}

impl Dialect {
    /// Name in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ChatRole {
    /// Instructions of the client.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// Earlier tool call of the model. The text is the name of the tool.
    Call,
    /// Result of a tool.
    Tool,
}

impl ChatRole {
    /// Name in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Message of a conversation, in the common form of all dialects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Author of the message.
    pub role: ChatRole,
    /// Text of the message, or the tool name of a call.
    pub text: String,
}

/// Tool that the request offers.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    pub name: String,
    /// Whether the tool takes free text instead of an object (OpenAI's custom tools).
    pub free_form: bool,
    /// JSON Schema of its arguments, or null.
    pub schema: Value,
}

impl ToolDefinition {
    /// Whether the schema of the tool has all of these arguments with these types, and requires no
    /// others. A schema without properties takes everything.
    pub fn takes(&self, args: &Value) -> bool {
        let properties = self.schema.get("properties").and_then(Value::as_object);
        let (Some(properties), Some(args)) = (properties, args.as_object()) else {
            return true;
        };
        if properties.is_empty() {
            return true;
        }
        let required = list(&self.schema, "required");
        args.iter()
            .all(|(name, value)| properties.get(name).is_some_and(|p| has_type(value, p)))
            && required
                .iter()
                .filter_map(Value::as_str)
                .all(|name| args.contains_key(name))
    }
}

/// Kind of content other than text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Media {
    /// An image.
    Image,
    /// A sound.
    Audio,
    /// Any other file.
    File,
}

impl Media {
    /// Name in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The kind of a MIME type.
    fn of_mime(mime: &str) -> Media {
        match mime.split('/').next() {
            Some("image") => Media::Image,
            Some("audio") => Media::Audio,
            _ => Media::File,
        }
    }

    /// The kind of a block of content, in the format of any vendor.
    fn of_block(block: &Value) -> Option<Media> {
        if let Some(data) = block.get("inlineData").or_else(|| block.get("inline_data")) {
            let mime = data.get("mimeType").or_else(|| data.get("mime_type"));
            return Some(Media::of_mime(
                mime.and_then(Value::as_str).unwrap_or_default(),
            ));
        }
        match block.get("type").and_then(Value::as_str)? {
            "image" | "image_url" | "input_image" => Some(Media::Image),
            "audio" | "input_audio" => Some(Media::Audio),
            "document" | "file" | "input_file" => Some(Media::File),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub struct ModelRequest {
    pub dialect: Dialect,
    pub model: String,
    pub stream: bool,
    pub messages: Vec<ChatMessage>,
    pub tools: Vec<ToolDefinition>,
    /// Content other than text, in the order of the conversation.
    pub media: Vec<Media>,
    /// Schema of the response, if the client requests JSON instead of text.
    pub json: Option<Value>,
    /// Whether to report usage in a stream. Chat Completions does so only on request.
    pub stream_usage: bool,
}

impl ModelRequest {
    pub fn read(dialect: Dialect, body: &Value) -> ModelRequest {
        let mut request = ModelRequest {
            dialect,
            model: string(body, "model"),
            stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
            messages: Vec::new(),
            tools: Vec::new(),
            media: media(body),
            json: None,
            stream_usage: body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true)),
        };
        match dialect {
            Dialect::Anthropic => request.anthropic(body),
            Dialect::Responses => request.responses(body),
            Dialect::Chat => request.chat(body),
            Dialect::Gemini => request.gemini(body),
        }
        request
    }

    fn push_message(&mut self, role: ChatRole, text: impl Into<String>) {
        let text = text.into();
        self.messages.push(ChatMessage { role, text });
    }

    fn add_tool(&mut self, tool: &Value, free_form: bool) {
        if let Some(name) = tool.get("name").and_then(Value::as_str) {
            let name = name.to_owned();
            // Each dialect has its own name for the schema.
            let schema = ["input_schema", "parameters", "parametersJsonSchema"]
                .iter()
                .find_map(|key| tool.get(*key))
                .cloned()
                .unwrap_or_default();
            self.tools.push(ToolDefinition {
                name,
                free_form,
                schema,
            });
        }
    }

    fn anthropic(&mut self, body: &Value) {
        for text in texts(body.get("system")) {
            self.push_message(ChatRole::System, text);
        }
        for message in list(body, "messages") {
            let role = role(message);
            let content = message.get("content");
            if let Some(text) = content.and_then(Value::as_str) {
                self.push_message(role, text);
            }
            for block in content.and_then(Value::as_array).into_iter().flatten() {
                match block.get("type").and_then(Value::as_str) {
                    Some("tool_use") => self.push_message(ChatRole::Call, string(block, "name")),
                    Some("tool_result") => {
                        self.push_message(ChatRole::Tool, texts(block.get("content")).join("\n"));
                    }
                    _ => {
                        if let Some(text) = block.get("text").and_then(Value::as_str) {
                            self.push_message(role, text);
                        }
                    }
                }
            }
        }
        for tool in list(body, "tools") {
            self.add_tool(tool, false);
        }
        let format = body.pointer("/output_config/format");
        let format = format.or_else(|| body.get("output_format"));
        self.json = format.and_then(|format| format.get("schema")).cloned();
    }

    fn responses(&mut self, body: &Value) {
        for text in texts(body.get("instructions")) {
            self.push_message(ChatRole::System, text);
        }
        if let Some(text) = body.get("input").and_then(Value::as_str) {
            self.push_message(ChatRole::User, text);
        }
        for item in list(body, "input") {
            let kind = item.get("type").and_then(Value::as_str);
            match kind.unwrap_or("message") {
                "message" => {
                    for text in texts(item.get("content")) {
                        self.push_message(role(item), text);
                    }
                }
                kind if kind.ends_with("_call_output") => {
                    self.push_message(ChatRole::Tool, texts(item.get("output")).join("\n"));
                }
                kind if kind.ends_with("_call") => {
                    self.push_message(ChatRole::Call, string(item, "name"))
                }
                _ => {}
            }
        }
        for tool in list(body, "tools") {
            let kind = tool.get("type").and_then(Value::as_str);
            match kind {
                Some("function") | None => self.add_tool(tool, false),
                Some("custom") => self.add_tool(tool, true),
                _ => {}
            }
        }
        self.json = body.pointer("/text/format/schema").cloned();
    }

    fn chat(&mut self, body: &Value) {
        for message in list(body, "messages") {
            let role = role(message);
            if role == ChatRole::Tool {
                self.push_message(role, texts(message.get("content")).join("\n"));
            } else {
                for text in texts(message.get("content")) {
                    self.push_message(role, text);
                }
            }
            for call in list(message, "tool_calls") {
                let name = call.pointer("/function/name").and_then(Value::as_str);
                self.push_message(ChatRole::Call, name.unwrap_or_default());
            }
        }
        for tool in list(body, "tools") {
            if let Some(function) = tool.get("function") {
                self.add_tool(function, false);
            }
        }
        self.json = body.pointer("/response_format/json_schema/schema").cloned();
    }

    fn gemini(&mut self, body: &Value) {
        let either = |a: &str, b: &str| body.get(a).or_else(|| body.get(b));
        let system = either("systemInstruction", "system_instruction");
        for part in system.map(|s| list(s, "parts")).unwrap_or_default() {
            self.push_message(ChatRole::System, string(part, "text"));
        }
        for content in list(body, "contents") {
            let role = role(content);
            for part in list(content, "parts") {
                if let Some(call) = part.get("functionCall") {
                    self.push_message(ChatRole::Call, string(call, "name"));
                } else if let Some(result) = part.get("functionResponse") {
                    let output = result.pointer("/response/output");
                    let output = output.or_else(|| result.get("response"));
                    self.push_message(ChatRole::Tool, plain(output));
                } else if let Some(text) = part.get("text").and_then(Value::as_str) {
                    self.push_message(role, text);
                }
            }
        }
        for group in list(body, "tools") {
            for tool in list(group, "functionDeclarations") {
                self.add_tool(tool, false);
            }
        }
        let config = either("generationConfig", "generation_config");
        let schema = config.and_then(|config| {
            let schema = config.get("responseJsonSchema");
            let schema = schema.or_else(|| config.get("responseSchema"));
            let json = config.get("responseMimeType")? == "application/json";
            Some(schema.cloned().unwrap_or(Value::Null)).filter(|_| json)
        });
        self.json = schema;
    }

    /// Whether the latest message is a tool result. Elements that the client adds around it
    /// (`<system-reminder>…</system-reminder>`) are ignored.
    pub fn after_tool(&self) -> bool {
        let newest = self.messages.iter().rev();
        let mut newest =
            newest.filter(|message| message.role != ChatRole::System && !is_wrapping(message));
        newest
            .next()
            .is_some_and(|message| message.role == ChatRole::Tool)
    }

    /// The texts of the user's latest turn, latest first.
    pub fn prompt_texts(&self) -> impl Iterator<Item = &str> {
        let messages = self.messages.iter().rev();
        let messages =
            messages.filter(|message| message.role != ChatRole::System && !is_wrapping(message));
        messages
            .skip_while(|message| message.role != ChatRole::User)
            .take_while(|message| message.role == ChatRole::User)
            .map(|message| message.text.as_str())
    }

    /// All earlier texts of the user, without the latest one, oldest first.
    pub fn earlier_texts(&self) -> Vec<&str> {
        let texts = self.messages.iter();
        let texts = texts.filter(|message| message.role == ChatRole::User && !is_wrapping(message));
        let mut texts: Vec<&str> = texts.map(|message| message.text.as_str()).collect();
        texts.pop();
        texts
    }

    /// The latest tool result.
    pub fn result(&self) -> &str {
        let found = self
            .messages
            .iter()
            .rfind(|message| message.role == ChatRole::Tool);
        found.map_or("", |message| message.text.as_str())
    }

    /// The working directory that the prompt or else the client mentions, or `.` if they mention none
    /// or if the prompt asks for relative paths.
    pub fn cwd(&self) -> &str {
        if self.prompt_texts().any(|text| text.contains(RELATIVE)) {
            return ".";
        }
        let all = self.messages.iter().map(|message| message.text.as_str());
        let mut texts = self.prompt_texts().chain(all);
        texts.find_map(mentioned_directory).unwrap_or(".")
    }

    /// Rough number of tokens, at four bytes per token.
    pub fn tokens(&self) -> u64 {
        let bytes: usize = self.messages.iter().map(|message| message.text.len()).sum();
        (bytes / 4).max(1) as u64
    }
}

/// The directory after one of the words that agents use to name their working directory.
fn mentioned_directory(text: &str) -> Option<&str> {
    const MARKERS: [&str; 5] = [
        "working directory",
        "<working-directory>",
        "<cwd>",
        "in the directory",
        "workspace director",
    ];
    let lower = text.to_ascii_lowercase();
    MARKERS.iter().find_map(|sign| {
        let at = lower.find(sign)?.checked_add(sign.len())?;
        directory(text.get(at..)?)
    })
}

/// Finds the first absolute path within a few characters after a sign.
fn directory(text: &str) -> Option<&str> {
    let near = text.find('/').filter(|at| *at <= 24)?;
    let path = text.get(near..)?;
    let end = path.find(|c: char| c.is_whitespace() || "<>\"'`)],;".contains(c));
    let path = path.get(..end.unwrap_or(path.len()))?;
    Some(path.trim_end_matches('.')).filter(|path| path.len() > 1)
}

/// Words of a prompt for agents whose tools reject absolute paths.
const RELATIVE: &str = "with relative paths";

/// Names of XML elements in which agents put the text of the user.
const USER_ELEMENTS: [&str; 2] = ["user_query", "user_message"];

/// Whether a program wrote this user text: it is one XML element from start to end.
fn is_wrapping(message: &ChatMessage) -> bool {
    let text = message.text.trim();
    let name = text.strip_prefix('<').map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)));
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    });
    let closed = |name: &str| {
        let rest = text.strip_suffix('>')?;
        rest.strip_suffix(name)?.strip_suffix("</")
    };
    message.role == ChatRole::User
        && name.is_some_and(|name| {
            !name.is_empty() && !USER_ELEMENTS.contains(&name) && closed(name).is_some()
        })
}

/// All content other than text in the messages of a request.
fn media(body: &Value) -> Vec<Media> {
    let messages = ["messages", "input", "contents"].map(|key| list(body, key));
    let blocks = messages.into_iter().flatten().flat_map(|message| {
        let own = ["content", "parts"].map(|key| list(message, key));
        own.into_iter().flatten()
    });
    blocks.filter_map(Media::of_block).collect()
}

fn role(message: &Value) -> ChatRole {
    match message.get("role").and_then(Value::as_str) {
        Some("assistant" | "model") => ChatRole::Assistant,
        Some("system" | "developer") => ChatRole::System,
        Some("tool" | "function") => ChatRole::Tool,
        _ => ChatRole::User,
    }
}

/// Whether a value has the type that a schema names. A schema without one type takes everything.
fn has_type(value: &Value, schema: &Value) -> bool {
    let name = schema.get("type").and_then(Value::as_str);
    // Gemini writes the types in upper case.
    match name.map(str::to_ascii_lowercase).as_deref() {
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    }
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    let list = value.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn string(value: &Value, key: &str) -> String {
    let text = value.get(key).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Returns a string, or the texts of a list of blocks.
fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text"));
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![plain(Some(other))],
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
