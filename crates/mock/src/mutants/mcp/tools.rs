//! Defects of the list of tools, tool calls and their results.

use serde_json::json;

use crate::mutants::Mutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("mcp-tools-undeclared", "MCP-TOOL-01")
            .says("There are tools, but the capability `tools` is not declared.")
            .out(answers("initialize"), removes("/result/capabilities/tools")),
        wrong("mcp-tools-no-schema", "MCP-TOOL-03")
            .says("Tools have no `inputSchema`.")
            .out(any(), edits_each("/result/tools", removes("/inputSchema"))),
        wrong("mcp-tools-list-schema", "MCP-TOOL-04")
            .says("The `inputSchema` of a tool has the type array.")
            .out(
                any(),
                edits_each(
                    "/result/tools",
                    sets("/inputSchema", json!({ "type": "array" })),
                ),
            ),
        wrong("mcp-tools-same-names", "MCP-TOOL-07")
            .says("All tools have the same name.")
            .out(any(), edits_each("/result/tools", sets("/name", "start"))),
        wrong("mcp-tools-odd-names", "MCP-TOOL-06")
            .says("Tool names contain spaces.")
            .out(
                any(),
                edits_each("/result/tools", |tool| {
                    let name = format!("{} a turn", text(tool, "/name"));
                    set(tool, "/name", name);
                }),
            ),
        wrong("mcp-tools-unknown-taken", "MCP-TOOL-12")
            .says("A call of an unknown tool succeeds.")
            .heard_as(
                both(method("tools/call"), |_, message| {
                    !matches!(text(message, "/params/name"), "start" | "reply" | "")
                }),
                replies(json!({ "content": [] })),
            ),
        wrong("mcp-tools-no-content", "MCP-TOOL-08")
            .says("Results have no `content`.")
            .out(answers("tools/call"), removes("/result/content")),
        wrong("mcp-tools-odd-content", "MCP-TOOL-09")
            .says("Results have content of the type `markdown`.")
            .out(
                answers("tools/call"),
                edits_each("/result/content", sets("/type", "markdown")),
            ),
        wrong("mcp-tools-unlike-schema", "MCP-TOOL-11")
            .says("A required field is missing from structured results.")
            .out(
                answers("tools/call"),
                removes("/result/structuredContent/text"),
            ),
        wrong("mcp-tools-no-structure", "MCP-TOOL-10")
            .says("Results have no `structuredContent`, although the tools declare an `outputSchema`.")
            .out(answers("tools/call"), removes("/result/structuredContent")),
        wrong("mcp-tools-mistake-hidden", "MCP-TOOL-14")
            .says("A call with invalid arguments is reported as a success.")
            .out(answers("tools/call"), sets("/result/isError", false)),
        wrong("mcp-tools-no-name", "MCP-TOOL-02")
            .says("A tool has no name.")
            .out(has("/result/tools/1/name"), removes("/result/tools/1/name")),
        wrong("mcp-tools-list-output", "MCP-TOOL-05")
            .says("The `outputSchema` of a tool has the type array.")
            .out(
                any(),
                edits_each(
                    "/result/tools",
                    sets("/outputSchema", json!({ "type": "array" })),
                ),
            ),
        wrong("mcp-tools-nameless-taken", "MCP-TOOL-13")
            .says("A call without a tool name is reported as a tool error.")
            .heard_as(
                both(method("tools/call"), lacks("/params/name")),
                replies(json!({ "content": [], "isError": true })),
            ),
    ]
}
