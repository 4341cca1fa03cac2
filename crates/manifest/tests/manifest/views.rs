//! Typed views return the values of real bundles, and nothing for a wrong type.

use agentproto_manifest::views::View;
use agentproto_manifest::{Doctype, Document};

fn base(file: &str) -> Document {
    let path = crate::repository().join("fixtures/base").join(file);
    let text = std::fs::read_to_string(&path).expect("fixture");
    Document::parse(path, text)
}

#[test]
fn an_agent_is_read_by_name_and_type() {
    let doc = base("quill/AGENT-CLI.md");
    let Some(View::AgentCli(agent)) = doc.view() else {
        panic!("{:?}", doc.doctype)
    };
    assert_eq!(agent.id(), Some("quill"));
    assert_eq!(agent.protocol(), Some("proprietary"));
    let continuation = agent.continuation().expect("continuation");
    assert_eq!(continuation.default(), Some("pinned-session"));
    assert!(continuation.supported().any(|s| s == "pinned-session"));
    assert!(agent.install().all(|m| m.method().is_some()));
    assert!(agent.version_check().and_then(|v| v.range()).is_some());
}

#[test]
fn a_cli_and_the_files_beside_it_are_read() {
    let doc = base("forge/CLI.md");
    let Some(View::Cli(cli)) = doc.view() else {
        panic!("{:?}", doc.doctype)
    };
    let sandbox = cli.sandbox().expect("sandbox");
    assert!(sandbox.exec().and_then(|e| e.allow()).is_some());
    assert!(sandbox.network().is_some_and(|n| n.egress().count() > 0));
    assert_eq!(
        cli.setup()
            .filter_map(|s| s.kind())
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        4
    );
    let secrets = base("forge/SECRETS.md");
    let Some(View::Secrets(secrets)) = secrets.view() else {
        panic!("secrets")
    };
    assert!(secrets.secrets().any(|s| s.kind() == Some("oauth")));
    let acp = base("harbor/harbor.ACP.md");
    let Some(View::Acp(acp)) = acp.view() else {
        panic!("acp")
    };
    let profile = acp.profile().expect("metadata.aip44");
    assert_eq!(profile.agent_capability(&["loadSession"]), Some(true));
    let operator = base("harbor/OPERATOR.md");
    let Some(View::Operator(operator)) = operator.view() else {
        panic!("operator")
    };
    assert_eq!(operator.runtime().and_then(|r| r.kind()), Some("agent-cli"));
    let runner = base("forge/RUNNER.md");
    let Some(View::Runner(runner)) = runner.view() else {
        panic!("runner")
    };
    assert!(runner.engine().is_some());
}

#[test]
fn a_field_of_the_wrong_type_is_none() {
    let text = "---\nid: 12\nbin_args: no\nsession: persistent\nmodes: [plan, {id: x}]\n---\n";
    let doc = Document::parse("AGENT-CLI.md", text.to_owned());
    assert_eq!(doc.doctype, Some(Doctype::AgentCli));
    let Some(View::AgentCli(agent)) = doc.view() else {
        panic!("view")
    };
    assert_eq!(agent.id(), None);
    assert_eq!(agent.bin_args().count(), 0);
    assert!(agent.session().is_none());
    assert_eq!(
        agent.modes().filter_map(|m| m.id()).collect::<Vec<_>>(),
        ["x"]
    );
}
