//! The input of a check ([`RuleContext`]) and the findings it builds ([`FindingDraft`]).

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use crate::edits::newline;
use crate::finding::{Edit, Finding, Fix, Related, Safety, source_for};
use crate::index::Index;
use crate::rule::{Profile, Rule, Severity};
use crate::settings::RuleSet;
use agentproto_manifest::{
    Doctype, Document, Entry, Node, RefRole, RefSite, Resolution, Span, Workspace, ref_sites,
};

/// The place a finding points at. A node converts to its value, an entry to its key.
#[derive(Clone, Debug)]
pub enum Location<'d> {
    /// A value.
    Value(&'d Node),
    /// The key of an entry.
    Key(&'d Entry),
    /// A part of a node's text. The finding has the node's pointer.
    Part(&'d Node, Span),
    /// A place outside the tree, such as a fence, the body or a comment.
    Bytes(Span),
}

impl<'d> From<&'d Node> for Location<'d> {
    fn from(node: &'d Node) -> Self {
        Location::Value(node)
    }
}
impl<'d> From<&'d Entry> for Location<'d> {
    fn from(entry: &'d Entry) -> Self {
        Location::Key(entry)
    }
}
impl From<Span> for Location<'_> {
    fn from(span: Span) -> Self {
        Location::Bytes(span)
    }
}

/// A finding that is being built: its places are nodes, not yet lines and columns.
pub struct FindingDraft<'d> {
    rule: &'static Rule,
    location: Location<'d>,
    message: String,
    help: Option<String>,
    severity: Option<Severity>,
    related: Vec<(Arc<Document>, Span, String)>,
    nearby: Vec<(Span, String)>,
    fix: Option<Fix>,
}

impl<'d> FindingDraft<'d> {
    /// A finding without help, related places and fix.
    pub fn new(
        rule: &'static Rule,
        location: impl Into<Location<'d>>,
        message: impl Into<String>,
    ) -> Self {
        FindingDraft {
            rule,
            location: location.into(),
            message: message.into(),
            help: None,
            severity: None,
            related: Vec::new(),
            nearby: Vec::new(),
            fix: None,
        }
    }
    /// The rule of the finding.
    pub fn rule(&self) -> &'static Rule {
        self.rule
    }
    /// Sets the help text: what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Overrides the rule's severity for this finding. It must not be higher than the rule's.
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }
    /// Adds a place in the same file that explains the finding.
    pub fn nearby(mut self, span: Span, message: impl Into<String>) -> Self {
        self.nearby.push((span, message.into()));
        self
    }
    /// Adds a place in another file that explains the finding.
    pub fn related(mut self, doc: &Arc<Document>, span: Span, message: impl Into<String>) -> Self {
        self.related.push((Arc::clone(doc), span, message.into()));
        self
    }
    /// Attaches a fix. Does nothing without edits.
    pub fn fix(mut self, safety: Safety, title: impl Into<String>, edits: Vec<Edit>) -> Self {
        if !edits.is_empty() {
            self.fix = Some(Fix {
                safety,
                title: title.into(),
                edits,
            });
        }
        self
    }
    /// Attaches a fix if the edits are possible. They are `None` if the way the file is written
    /// does not allow them.
    pub fn fix_if(
        self,
        safety: Safety,
        title: impl Into<String>,
        edits: Option<Vec<Edit>>,
    ) -> Self {
        match edits {
            Some(edits) => self.fix(safety, title, edits),
            None => self,
        }
    }
}

/// A reference and the result of resolving it.
#[derive(Debug)]
pub struct ResolvedRef<'d> {
    /// The field that holds the reference.
    pub site: RefSite<'d>,
    /// What the reference resolves to.
    pub target: Resolution,
}

/// The document being checked, and everything that checks may look up.
pub struct RuleContext<'d> {
    /// The document.
    pub doc: &'d Document,
    /// The frontmatter. Checks run only on documents that have one.
    pub root: &'d Node,
    /// Kind of the manifest.
    pub doctype: Doctype,
    /// The profile of the run.
    pub profile: Profile,
    /// Loads other files and resolves references.
    pub workspace: &'d Workspace<'d>,
    /// All manifests of the run. `None` in the first pass, before all files are read.
    pub index: Option<&'d Index>,
    rules: &'d RuleSet,
    /// Whether a path is itself linted in this run.
    linted: &'d dyn Fn(&std::path::Path) -> bool,
    refs: OnceCell<Vec<ResolvedRef<'d>>>,
    sandbox: OnceCell<Option<&'d Node>>,
    findings: RefCell<Vec<Finding>>,
}

impl<'d> RuleContext<'d> {
    /// A context without findings.
    pub fn new(
        doc: &'d Document,
        root: &'d Node,
        doctype: Doctype,
        workspace: &'d Workspace<'d>,
        rules: &'d RuleSet,
        index: Option<&'d Index>,
        linted: &'d dyn Fn(&std::path::Path) -> bool,
    ) -> Self {
        RuleContext {
            doc,
            root,
            doctype,
            profile: rules.profile(),
            workspace,
            index,
            rules,
            linted,
            refs: OnceCell::new(),
            sandbox: OnceCell::new(),
            findings: RefCell::default(),
        }
    }

    /// Whether a rule is on. Only needed before expensive work: `report` drops findings of rules
    /// that are off.
    pub fn on(&self, rule: &'static Rule) -> bool {
        self.rules.severity(rule).is_some()
    }

    /// Whether the document has this doctype.
    pub fn is(&self, doctype: Doctype) -> bool {
        self.doctype == doctype
    }

    /// Whether the file at `path` is linted in this run. If so, its errors are reported there and
    /// need not be repeated at references to it.
    pub fn is_linted(&self, path: &std::path::Path) -> bool {
        (self.linted)(path)
    }

    /// All references of the document. They are resolved at the first call.
    pub fn refs(&self) -> &[ResolvedRef<'d>] {
        self.refs.get_or_init(|| {
            ref_sites(self.doc)
                .into_iter()
                .map(|site| ResolvedRef {
                    target: self.workspace.resolve(self.doc, site.role, site.text),
                    site,
                })
                .collect()
        })
    }

    /// The first target of a role that can be read, has frontmatter and has the expected doctype.
    pub fn bound(&self, role: RefRole) -> Option<(&ResolvedRef<'d>, &Arc<Document>)> {
        self.refs()
            .iter()
            .filter(|r| r.site.role == role)
            .find_map(|r| {
                let doc = r.target.document()?;
                let fits = doc.root.is_some()
                    && (role.doctype().is_none() || doc.doctype == role.doctype());
                fits.then_some((r, doc))
            })
    }

    /// The field `sandbox`. The lookup is cached, because rules ask for it at every violation and a
    /// mapping may have very many keys.
    pub fn sandbox(&self) -> Option<&'d Node> {
        *self.sandbox.get_or_init(|| self.root.get("sandbox"))
    }

    /// Adds a finding, unless its rule is off.
    pub fn report(&self, draft: FindingDraft<'d>) {
        let Some(on) = self.rules.severity(draft.rule) else {
            return;
        };
        let severity = draft.severity.unwrap_or(on);
        let finding = finish_draft(self.doc, draft, severity);
        self.findings.borrow_mut().push(finding);
    }

    /// Number of findings so far.
    pub fn finding_count(&self) -> usize {
        self.findings.borrow().len()
    }

    /// Appends the number of unknown fields that are not reported to a finding about an unknown
    /// field.
    pub fn append_unlisted_count(&self, finding: usize, count: usize) {
        if let Some(last) = self.findings.borrow_mut().get_mut(finding) {
            let fields = if count == 1 { "field is" } else { "fields are" };
            last.message += &format!("; {count} more unknown {fields} not listed");
        }
    }

    /// The findings, in the order in which they were reported.
    pub fn into_findings(self) -> Vec<Finding> {
        self.findings.into_inner()
    }
}

/// Turns a draft into a finding: converts its places to lines, columns and JSON pointers.
pub fn finish_draft(doc: &Document, draft: FindingDraft<'_>, severity: Severity) -> Finding {
    let (span, pointer) = match draft.location {
        Location::Value(node) => (node.span, doc.pointer_of(node)),
        Location::Part(node, span) => (span, doc.pointer_of(node)),
        Location::Key(entry) => (entry.key_span, doc.pointer_of_entry(entry)),
        Location::Bytes(span) => (span, None),
    };
    let at = |doc: &Document, span: Span, message: String| Related {
        file: doc.path.clone(),
        span,
        start: doc.position(span.start),
        end: doc.position(span.end),
        message,
    };
    let mut related: Vec<Related> = draft
        .nearby
        .into_iter()
        .map(|(span, message)| at(doc, span, message))
        .collect();
    related.extend(
        draft
            .related
            .into_iter()
            .map(|(other, span, message)| at(&other, span, message)),
    );
    let fix = draft.fix.map(|fix| with_line_breaks_of(doc, fix));
    Finding {
        rule: draft.rule,
        source: source_for(draft.rule, doc),
        severity,
        message: draft.message,
        help: draft.help,
        file: doc.path.clone(),
        span,
        start: doc.position(span.start),
        end: doc.position(span.end),
        pointer: pointer.unwrap_or_default(),
        related,
        fix,
        suppressed: None,
    }
}

/// Uses the file's line endings in the text that a fix inserts.
fn with_line_breaks_of(doc: &Document, mut fix: Fix) -> Fix {
    if fix.edits.iter().any(|e| e.text.contains('\n')) && newline(doc) == "\r\n" {
        for edit in &mut fix.edits {
            edit.text = edit.text.replace("\r\n", "\n").replace('\n', "\r\n");
        }
    }
    fix
}
