//! The adapters that can be started, and what they offer.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::Registry;
use crate::model::{AdapterDetails, AdapterMode, AdapterModels, AdapterOption};
use agentproto_manifest::to_json;
use agentproto_manifest::views::AgentCli;
use agentproto_runtime::built_in;
use agentproto_runtime::bundle::Bundle;

/// Maximum number of modes, options, values and models of one adapter in a response.
const MAX_ITEMS: usize = 200;

/// What changes when a file is replaced or written: inode, length and time of the last change.
type FileState = (u64, u64, i64, i64);

/// Details of manifests that were read before, by path. So a list of many adapters does not parse
/// their manifests each time.
#[derive(Default)]
pub(super) struct DetailsCache(Mutex<HashMap<PathBuf, (FileState, AdapterDetails)>>);

impl Registry {
    /// Slugs of all adapters that can be spawned.
    pub fn adapters(&self) -> Vec<String> {
        let config = &self.shared.config;
        let mut names = Bundle::installed_names(&config.adapters, &config.home);
        if config.bundled {
            names.extend(built_in::names().iter().map(|n| (*n).to_owned()));
        }
        names.sort();
        names.dedup();
        names
    }

    /// What each adapter that can be spawned offers, or `None` if its manifest cannot be read.
    pub fn adapter_details(&self) -> BTreeMap<String, Option<AdapterDetails>> {
        let config = &self.shared.config;
        let installed = Bundle::installed_manifests(&config.adapters, &config.home);
        let mut known = self.shared.adapter_details.0.lock();
        let mut used = HashMap::new();
        let mut of = |manifest: &Path| {
            let state = file_state(manifest)?;
            let details = match known.remove(manifest) {
                Some((old, details)) if old == state => details,
                _ => details_of(Bundle::load(manifest).ok()?.agent()?),
            };
            used.insert(manifest.to_owned(), (state, details.clone()));
            Some(details)
        };
        let mut all: BTreeMap<_, _> = installed
            .into_iter()
            .map(|(slug, manifest)| {
                let details = manifest.and_then(|manifest| of(&manifest));
                (slug, details)
            })
            .collect();
        for slug in config.bundled.then(built_in::names).unwrap_or_default() {
            if !all.contains_key(slug) {
                let bundle = Bundle::bundled(slug, &config.home).ok().flatten();
                let details = bundle.and_then(|bundle| of(bundle.path()));
                all.insert(slug.to_owned(), details);
            }
        }
        // Forget the manifests of adapters that were removed.
        *known = used;
        all
    }
}

fn file_state(path: &Path) -> Option<FileState> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.len(), meta.ctime(), meta.ctime_nsec()))
}

fn details_of(agent: AgentCli) -> AdapterDetails {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let modes: Vec<AdapterMode> = agent
        .modes()
        .filter_map(|mode| {
            Some(AdapterMode {
                id: mode.id()?.to_owned(),
                description: text(mode.description()),
            })
        })
        .take(MAX_ITEMS)
        .collect();
    let options = agent.options().filter_map(|option| {
        Some(AdapterOption {
            id: option.id()?.to_owned(),
            kind: option.kind().unwrap_or("string").to_owned(),
            values: option.values().take(MAX_ITEMS).map(str::to_owned).collect(),
            default: option.default().map(to_json),
            min: option.min(),
            max: option.max(),
            description: text(option.description()),
        })
    });
    let models = agent.models();
    let allowed = models.into_iter().flat_map(|models| models.allowed());
    AdapterDetails {
        default_mode: text(
            modes
                .iter()
                .map(|mode| mode.id.as_str())
                .find(|id| *id == "default"),
        ),
        modes,
        options: options.take(MAX_ITEMS).collect(),
        models: AdapterModels {
            default: text(models.and_then(|models| models.default())),
            allowed: allowed.take(MAX_ITEMS).map(str::to_owned).collect(),
        },
    }
}
