//! What a check sees, and how it speaks.

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

/// Where a finding points. Made from a node (its value) or an entry (its key).
#[derive(Clone, Debug)]
pub enum Place<'d> {
    Value(&'d Node),
    Key(&'d Entry),
    /// A part of a node's text; the pointer is the node's.
    Part(&'d Node, Span),
    /// Outside the tree (fences, body, comments).
    Bytes(Span),
}

impl<'d> From<&'d Node> for Place<'d> {
    fn from(node: &'d Node) -> Self {
        Place::Value(node)
    }
}
impl<'d> From<&'d Entry> for Place<'d> {
    fn from(entry: &'d Entry) -> Self {
        Place::Key(entry)
    }
}
impl From<Span> for Place<'_> {
    fn from(span: Span) -> Self {
        Place::Bytes(span)
    }
}

/// A finding in the making.
pub struct Draft<'d> {
    rule: &'static Rule,
    place: Place<'d>,
    message: String,
    help: Option<String>,
    severity: Option<Severity>,
    related: Vec<(Arc<Document>, Span, String)>,
    nearby: Vec<(Span, String)>,
    fix: Option<Fix>,
}

impl<'d> Draft<'d> {
    pub fn new(
        rule: &'static Rule,
        place: impl Into<Place<'d>>,
        message: impl Into<String>,
    ) -> Self {
        Draft {
            rule,
            place: place.into(),
            message: message.into(),
            help: None,
            severity: None,
            related: Vec::new(),
            nearby: Vec::new(),
            fix: None,
        }
    }
    pub fn rule(&self) -> &'static Rule {
        self.rule
    }
    /// What to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Another severity than the rule's, for this finding only (never above an error of the rule).
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = Some(severity);
        self
    }
    /// A place in this file that explains the finding.
    pub fn nearby(mut self, span: Span, message: impl Into<String>) -> Self {
        self.nearby.push((span, message.into()));
        self
    }
    /// A place in another file that explains the finding.
    pub fn related(mut self, doc: &Arc<Document>, span: Span, message: impl Into<String>) -> Self {
        self.related.push((Arc::clone(doc), span, message.into()));
        self
    }
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
    /// As `fix`, where the edits may be impossible (`None`) for the way the file is written.
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

/// A reference with what it leads to.
#[derive(Debug)]
pub struct Ref<'d> {
    pub site: RefSite<'d>,
    pub target: Resolution,
}

/// One document under judgement.
pub struct Context<'d> {
    pub doc: &'d Document,
    /// The frontmatter; checks run only where there is one.
    pub root: &'d Node,
    pub doctype: Doctype,
    pub profile: Profile,
    pub workspace: &'d Workspace<'d>,
    /// The manifests of the whole run, once all are read; `None` in the first pass.
    pub index: Option<&'d Index>,
    rules: &'d RuleSet,
    /// Whether a path is itself linted in this run.
    linted: &'d dyn Fn(&std::path::Path) -> bool,
    refs: OnceCell<Vec<Ref<'d>>>,
    sandbox: OnceCell<Option<&'d Node>>,
    findings: RefCell<Vec<Finding>>,
}

impl<'d> Context<'d> {
    pub fn new(
        doc: &'d Document,
        root: &'d Node,
        doctype: Doctype,
        workspace: &'d Workspace<'d>,
        rules: &'d RuleSet,
        index: Option<&'d Index>,
        linted: &'d dyn Fn(&std::path::Path) -> bool,
    ) -> Self {
        Context {
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

    /// Whether a rule is on: to be asked only before costly work, `report` filters anyway.
    pub fn on(&self, rule: &'static Rule) -> bool {
        self.rules.severity(rule).is_some()
    }

    pub fn is(&self, doctype: Doctype) -> bool {
        self.doctype == doctype
    }

    /// Whether the file at `path` is judged in this run, so that its own mistakes are
    /// reported there and need not be repeated at the reference.
    pub fn is_linted(&self, path: &std::path::Path) -> bool {
        (self.linted)(path)
    }

    /// Every reference of the document, resolved once.
    pub fn refs(&self) -> &[Ref<'d>] {
        self.refs.get_or_init(|| {
            ref_sites(self.doc)
                .into_iter()
                .map(|site| Ref {
                    target: self.workspace.resolve(self.doc, site.role, site.text),
                    site,
                })
                .collect()
        })
    }

    /// The first readable target of a role that has the expected doctype and a frontmatter.
    pub fn bound(&self, role: RefRole) -> Option<(&Ref<'d>, &Arc<Document>)> {
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

    /// `sandbox`, looked up once: rules ask for it at every violation, and a mapping may have
    /// very many keys.
    pub fn sandbox(&self) -> Option<&'d Node> {
        *self.sandbox.get_or_init(|| self.root.get("sandbox"))
    }

    pub fn report(&self, draft: Draft<'d>) {
        let Some(on) = self.rules.severity(draft.rule) else {
            return;
        };
        let severity = draft.severity.unwrap_or(on);
        let finding = conclude(self.doc, draft, severity);
        self.findings.borrow_mut().push(finding);
    }

    /// Findings so far.
    pub fn told(&self) -> usize {
        self.findings.borrow().len()
    }

    /// Adds to a finding about an unknown field how many more are not told.
    pub fn say_unlisted(&self, finding: usize, count: usize) {
        if let Some(last) = self.findings.borrow_mut().get_mut(finding) {
            let fields = if count == 1 { "field is" } else { "fields are" };
            last.message += &format!("; {count} more unknown {fields} not listed");
        }
    }

    pub fn into_findings(self) -> Vec<Finding> {
        self.findings.into_inner()
    }
}

/// Turns a draft's symbolic places into lines, columns and pointers.
pub fn conclude(doc: &Document, draft: Draft<'_>, severity: Severity) -> Finding {
    let (span, pointer) = match draft.place {
        Place::Value(node) => (node.span, doc.pointer_of(node)),
        Place::Part(node, span) => (span, doc.pointer_of(node)),
        Place::Key(entry) => (entry.key_span, doc.pointer_of_entry(entry)),
        Place::Bytes(span) => (span, None),
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

/// New lines end as the file's lines do.
fn with_line_breaks_of(doc: &Document, mut fix: Fix) -> Fix {
    if fix.edits.iter().any(|e| e.text.contains('\n')) && newline(doc) == "\r\n" {
        for edit in &mut fix.edits {
            edit.text = edit.text.replace("\r\n", "\n").replace('\n', "\r\n");
        }
    }
    fix
}
