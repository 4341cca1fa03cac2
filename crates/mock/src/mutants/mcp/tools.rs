//! Tools: their list, their calls and what comes of them.

use serde_json::json;

use crate::mutants::Mutant;
use crate::mutants::combine::*;
use crate::mutants::tools::*;

pub fn mutants() -> Vec<Mutant> {
    vec![
        wrong("mcp-tools-undeclared", "MCP-TOOL-01")
            .says("There are tools, but no capability says so.")
            .out(answers("initialize"), removes("/result/capabilities/tools")),
        wrong("mcp-tools-no-schema", "MCP-TOOL-03")
            .says("Tools have no `inputSchema`.")
            .out(any(), edits_each("/result/tools", removes("/inputSchema"))),
        wrong("mcp-tools-list-schema", "MCP-TOOL-04")
            .says("The `inputSchema` of a tool describes a list.")
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
            .says("Names of tools have spaces.")
            .out(
                any(),
                edits_each("/result/tools", |tool| {
                    let name = format!("{} a turn", text(tool, "/name"));
                    set(tool, "/name", name);
                }),
            ),
        wrong("mcp-tools-unknown-taken", "MCP-TOOL-12")
            .says("A call of a tool that does not exist succeeds.")
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
            .says("Results are of the type `markdown`.")
            .out(
                answers("tools/call"),
                edits_each("/result/content", sets("/type", "markdown")),
            ),
        wrong("mcp-tools-unlike-schema", "MCP-TOOL-11")
            .says("Structured results lack a required field.")
            .out(
                answers("tools/call"),
                removes("/result/structuredContent/text"),
            ),
        wrong("mcp-tools-no-structure", "MCP-TOOL-10")
            .says("Results have no `structuredContent`, though the tools promise it.")
            .out(answers("tools/call"), removes("/result/structuredContent")),
        wrong("mcp-tools-mistake-hidden", "MCP-TOOL-14")
            .says("A call with bad arguments looks like a success.")
            .out(answers("tools/call"), sets("/result/isError", false)),
        wrong("mcp-tools-no-name", "MCP-TOOL-02")
            .says("A tool has no name.")
            .out(has("/result/tools/1/name"), removes("/result/tools/1/name")),
        wrong("mcp-tools-list-output", "MCP-TOOL-05")
            .says("The `outputSchema` of a tool describes a list.")
            .out(
                any(),
                edits_each(
                    "/result/tools",
                    sets("/outputSchema", json!({ "type": "array" })),
                ),
            ),
        wrong("mcp-tools-nameless-taken", "MCP-TOOL-13")
            .says("A call that names no tool is the error of a tool.")
            .heard_as(
                both(method("tools/call"), lacks("/params/name")),
                replies(json!({ "content": [], "isError": true })),
            ),
    ]
}
