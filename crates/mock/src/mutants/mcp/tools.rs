//! Defects of the list of tools, tool calls and their results.

use serde_json::json;

use crate::mutants::AgentMutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<AgentMutant> {
    vec![
        mutant("mcp-tools-undeclared", "MCP-TOOL-01")
            .describe("There are tools, but the capability `tools` is not declared.")
            .outgoing(answers("initialize"), removes("/result/capabilities/tools")),
        mutant("mcp-tools-no-schema", "MCP-TOOL-03")
            .describe("Tools have no `inputSchema`.")
            .outgoing(any(), edits_each("/result/tools", removes("/inputSchema"))),
        mutant("mcp-tools-list-schema", "MCP-TOOL-04")
            .describe("The `inputSchema` of a tool has the type array.")
            .outgoing(
                any(),
                edits_each(
                    "/result/tools",
                    sets("/inputSchema", json!({ "type": "array" })),
                ),
            ),
        mutant("mcp-tools-same-names", "MCP-TOOL-07")
            .describe("All tools have the same name.")
            .outgoing(any(), edits_each("/result/tools", sets("/name", "start"))),
        mutant("mcp-tools-odd-names", "MCP-TOOL-06")
            .describe("Tool names contain spaces.")
            .outgoing(
                any(),
                edits_each("/result/tools", |tool| {
                    let name = format!("{} a turn", text(tool, "/name"));
                    set(tool, "/name", name);
                }),
            ),
        mutant("mcp-tools-unknown-taken", "MCP-TOOL-12")
            .describe("A call of an unknown tool succeeds.")
            .replace_incoming(
                both(method("tools/call"), |_, message| {
                    !matches!(text(message, "/params/name"), "start" | "reply" | "")
                }),
                replies(json!({ "content": [] })),
            ),
        mutant("mcp-tools-no-content", "MCP-TOOL-08")
            .describe("Results have no `content`.")
            .outgoing(answers("tools/call"), removes("/result/content")),
        mutant("mcp-tools-odd-content", "MCP-TOOL-09")
            .describe("Results have content of the type `markdown`.")
            .outgoing(
                answers("tools/call"),
                edits_each("/result/content", sets("/type", "markdown")),
            ),
        mutant("mcp-tools-unlike-schema", "MCP-TOOL-11")
            .describe("A required field is missing from structured results.")
            .outgoing(
                answers("tools/call"),
                removes("/result/structuredContent/text"),
            ),
        mutant("mcp-tools-no-structure", "MCP-TOOL-10")
            .describe("Results have no `structuredContent`, although the tools declare an `outputSchema`.")
            .outgoing(answers("tools/call"), removes("/result/structuredContent")),
        mutant("mcp-tools-mistake-hidden", "MCP-TOOL-14")
            .describe("A call with invalid arguments is reported as a success.")
            .outgoing(answers("tools/call"), sets("/result/isError", false)),
        mutant("mcp-tools-no-name", "MCP-TOOL-02")
            .describe("A tool has no name.")
            .outgoing(has("/result/tools/1/name"), removes("/result/tools/1/name")),
        mutant("mcp-tools-list-output", "MCP-TOOL-05")
            .describe("The `outputSchema` of a tool has the type array.")
            .outgoing(
                any(),
                edits_each(
                    "/result/tools",
                    sets("/outputSchema", json!({ "type": "array" })),
                ),
            ),
        mutant("mcp-tools-nameless-taken", "MCP-TOOL-13")
            .describe("A call without a tool name is reported as a tool error.")
            .replace_incoming(
                both(method("tools/call"), lacks("/params/name")),
                replies(json!({ "content": [], "isError": true })),
            ),
    ]
}
