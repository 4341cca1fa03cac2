//! SECRETS.md (AIP-19): which secrets exist, who may read them, and which variables they are passed
//! in. It never contains values.

use crate::bundle::Bundle;
use crate::error::{Code, Error};
use agentproto_manifest::views::View;
use agentproto_manifest::{Disk, Document, Node, RefRole, Resolution, Workspace};
use agentproto_sandbox::policy::ManifestPosition;

/// Fields that would contain a value or reveal one.
const VALUE_FIELDS: [&str; 7] = [
    "value",
    "plaintext",
    "ciphertext",
    "secret",
    "data",
    "key",
    "token",
];

/// The secrets that a SECRETS.md declares.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The entries, in the order of the file.
    pub entries: Vec<SecretEntry>,
}

/// One secret of the inventory.
#[derive(Clone, Debug)]
pub struct SecretEntry {
    /// Name of the secret, unique in the file.
    pub slug: String,
    /// The kind of value.
    pub kind: SecretKind,
    /// `scheme://driver/path`, if the entry overrides the host's own backend.
    pub backend: Option<String>,
    /// Variables that it is passed in, with the field of a structured value.
    pub variables: Vec<(String, Option<String>)>,
    /// Exposures that this host does not support.
    pub unsupported_exposures: Vec<String>,
    /// Grants of `access.bind`, or `None` if it is not declared.
    pub bind: Option<Vec<SecretGrant>>,
    /// Endpoints for a login with OAuth.
    pub oauth: Option<OauthEndpoints>,
}

/// The kind of a secret's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// A text without structure.
    Opaque,
    /// OAuth tokens.
    Oauth,
    /// A private and a public key.
    Keypair,
    /// A JSON value.
    Json,
}

/// One entry of `access.bind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretGrant {
    /// A tool, by its name.
    Tool(String),
    /// A user, by their id.
    User(String),
    /// Roles, capabilities, workflows and unknown kinds, which this host cannot decide.
    Undecidable(String),
}

/// OAuth endpoints. AIP-19 leaves them to the host: `metadata.agentproto.oauth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthEndpoints {
    /// URL of the page where the user consents.
    pub authorize_url: String,
    /// URL of the token endpoint.
    pub token_url: String,
    /// Id of the OAuth client.
    pub client_id: String,
    /// Variable of the caller's environment that contains the client secret.
    pub client_secret_env: Option<String>,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Path of the redirect URL, if the provider requires a registered one.
    pub redirect_path: Option<String>,
}

impl Inventory {
    /// Reads the file that `auth.ref` names. A file that is missing or unreadable is an error:
    /// which secrets the bundle uses, and who may read them, would be unknown.
    pub fn from_bundle(bundle: &Bundle) -> Result<Inventory, Error> {
        let Some(node) = bundle.root().at(&["auth", "ref"]) else {
            return Ok(Inventory::default());
        };
        let Some(reference) = node.as_str() else {
            return Err(bundle.invalid(node, "`auth.ref` must be a path to a SECRETS.md"));
        };
        let workspace = Workspace::new(&Disk, "/");
        let unusable = |why: &str| {
            let what = format!("`auth.ref` names `{reference}`: {why} (AIP-29 § Auth)");
            Err(bundle.invalid(node, &what))
        };
        let doc = match workspace.resolve(&bundle.manifest, RefRole::Secrets, reference) {
            Resolution::Document(doc) => doc,
            Resolution::Missing(_) => return unusable("file not found"),
            Resolution::Unreadable(_, error) => return unusable(&error.to_string()),
            Resolution::External | Resolution::Absolute | Resolution::Escapes(_) => {
                return Err(bundle.invalid(
                    node,
                    "`auth.ref` must be a relative path to a SECRETS.md (AIP-29 § Auth)",
                ));
            }
        };
        match doc.view() {
            Some(View::Secrets(view)) if view.node().get("secrets").is_some_and(Node::is_seq) => {
                let items = view.node().get("secrets").map_or(&[][..], Node::items);
                read(&doc, items)
            }
            _ => unusable("it has no `secrets` list"),
        }
    }

    /// The entry with this slug.
    pub fn slug(&self, slug: &str) -> Option<&SecretEntry> {
        self.entries.iter().find(|e| e.slug == slug)
    }

    /// The secret that is passed in a variable, with the field to use.
    pub fn variable(&self, name: &str) -> Option<(&SecretEntry, Option<&str>)> {
        let declared = self.entries.iter().find_map(|entry| {
            let (_, field) = entry.variables.iter().find(|(n, _)| n == name)?;
            Some((entry, field.as_deref()))
        });
        declared.or_else(|| {
            let named = |entry: &&SecretEntry| is_convention(&entry.slug, name);
            Some((self.entries.iter().find(named)?, None))
        })
    }
}

/// `STRIPE_API_KEY` matches `stripe-api-key`. A group before a `/` may be omitted.
fn is_convention(slug: &str, name: &str) -> bool {
    let variable = |text: &str| text.to_ascii_uppercase().replace(['-', '/'], "_");
    let own = slug.split_once('/').map_or(slug, |(_, own)| own);
    variable(slug) == name || variable(own) == name
}

/// The slug of a variable that is not in the inventory.
pub fn conventional_slug(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

fn read(doc: &Document, items: &[Node]) -> Result<Inventory, Error> {
    let invalid = |node: &Node, what: &str| {
        let at = ManifestPosition::new(doc, node.span);
        Error::new(Code::ManifestInvalid, format!("{at}: {what} (AIP-19)"))
            .hint(crate::bundle::lint_hint(doc))
    };
    let mut out = Inventory::default();
    for item in items {
        let Some(slug) = item.str_at(&["slug"]) else {
            return Err(invalid(item, "`slug` is missing"));
        };
        if let Some(key) = VALUE_FIELDS.iter().find(|key| item.has(key)) {
            let what = format!("`{slug}` has `{key}`: a SECRETS.md must not contain values");
            return Err(invalid(item.get(key).unwrap_or(item), &what));
        }
        if out.slug(slug).is_some() {
            return Err(invalid(item, &format!("duplicate secret `{slug}`")));
        }
        let kind = match item.str_at(&["kind"]).unwrap_or("opaque") {
            "opaque" => SecretKind::Opaque,
            "oauth" => SecretKind::Oauth,
            "keypair" => SecretKind::Keypair,
            "json" => SecretKind::Json,
            other => {
                let what = format!("unknown secret kind `{other}`");
                return Err(invalid(item.get("kind").unwrap_or(item), &what));
            }
        };
        let (variables, unsupported_exposures) = exposures(item);
        out.entries.push(SecretEntry {
            slug: slug.to_owned(),
            kind,
            backend: item.str_at(&["backend"]).map(str::to_owned),
            variables,
            unsupported_exposures,
            bind: item.at(&["access", "bind"]).map(grants),
            oauth: endpoints(item),
        });
    }
    Ok(out)
}

type Exposed = (Vec<(String, Option<String>)>, Vec<String>);

fn exposures(item: &Node) -> Exposed {
    let (mut variables, mut unsupported_exposures) = (Vec::new(), Vec::new());
    for exposure in item.get("exposures").map_or(&[][..], Node::items) {
        match (exposure.str_at(&["kind"]), exposure.str_at(&["name"])) {
            (Some("env"), Some(name)) => {
                let field = exposure.str_at(&["field"]).map(str::to_owned);
                variables.push((name.to_owned(), field));
            }
            (Some(kind @ ("file" | "egress-substitute")), _) => {
                unsupported_exposures.push(kind.to_owned())
            }
            // Unknown kinds are ignored.
            _ => {}
        }
    }
    if let Some(bound) = item.at(&["metadata", "bindings", "env"]) {
        let names = bound.as_str().into_iter();
        for name in names.chain(bound.strings().map(|(name, _)| name)) {
            variables.push((name.to_owned(), None));
        }
    }
    (variables, unsupported_exposures)
}

fn grants(node: &Node) -> Vec<SecretGrant> {
    let grant = |entry: &Node| {
        if let Some(tool) = entry.str_at(&["tool"]) {
            return SecretGrant::Tool(tool.to_owned());
        }
        if let Some(user) = entry.str_at(&["userId"]) {
            return SecretGrant::User(user.to_owned());
        }
        let key = entry.entries().first().map_or("?", |e| e.key.as_str());
        SecretGrant::Undecidable(key.to_owned())
    };
    node.items().iter().map(grant).collect()
}

fn endpoints(item: &Node) -> Option<OauthEndpoints> {
    let node = item.at(&["metadata", "agentproto", "oauth"])?;
    let text = |key: &str| node.str_at(&[key]).map(str::to_owned);
    Some(OauthEndpoints {
        authorize_url: text("authorize_url")?,
        token_url: text("token_url")?,
        client_id: text("client_id")?,
        client_secret_env: text("client_secret_env"),
        scopes: node
            .get("scopes")
            .map(|n| n.strings().map(|(s, _)| s.to_owned()).collect())
            .unwrap_or_default(),
        redirect_path: text("redirect_path").filter(|p| p.starts_with('/')),
    })
}

/// Who asks for a secret: the names of the bundle as a tool, and the users who run it.
pub struct Requester<'r> {
    /// Names of the bundle as a tool.
    pub tools: Vec<&'r str>,
    /// Names and ids of the current user.
    pub users: Vec<String>,
}

impl SecretEntry {
    /// Whether the requester may read the value, and by which grant. Without `access.bind`, the
    /// owner of the store decides, who is running this process. The same applies to grants that
    /// this host cannot decide.
    pub fn access(&self, who: &Requester) -> Result<String, String> {
        let Some(grants) = &self.bind else {
            return Ok("owner".to_owned());
        };
        let mut undecidable = None;
        for grant in grants {
            match grant {
                SecretGrant::Tool(tool) if who.tools.contains(&tool.as_str()) => {
                    return Ok(format!("tool: {tool}"));
                }
                SecretGrant::User(user) if who.users.contains(user) => {
                    return Ok(format!("userId: {user}"));
                }
                SecretGrant::Undecidable(kind) => undecidable = Some(kind),
                SecretGrant::Tool(_) | SecretGrant::User(_) => {}
            }
        }
        match undecidable {
            Some(kind) => Ok(format!("owner ({kind} grants are not evaluated)")),
            None => Err(format!(
                "`access.bind` of `{}` does not grant access to this bundle or user",
                self.slug
            )),
        }
    }
}
