//! A separate home directory for every case. What an agent stores there is kept for all processes
//! of the case and then deleted. The user's real settings are never touched.

use std::io;
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a template file. Templates are for settings, not for data.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of files in a template.
const MAX_FILES: usize = 1000;

/// How the home directory of each case is created.
#[derive(Clone, Debug, Default)]
pub struct HomeTemplate {
    /// Directory that is copied into each home.
    pub template: Option<PathBuf>,
    /// Environment variables for every process. `{home}` and `{model_url}` are replaced.
    pub env: Vec<(String, String)>,
    /// URL of the mock model, which replaces `{model_url}`.
    pub model_url: Option<String>,
}

impl HomeTemplate {
    /// Creates the home of a case if it does not exist, and returns the environment variables for
    /// it.
    pub fn create(&self, root: &Path) -> io::Result<Vec<(String, String)>> {
        let home = root.join("home");
        if !home.exists() {
            std::fs::create_dir_all(&home)?;
            if let Some(template) = &self.template {
                let mut left = MAX_FILES;
                self.copy(template, &home, &home, &mut left)?;
            }
        }
        let name = home.to_string_lossy().into_owned();
        let mut env = vec![("HOME".to_owned(), name)];
        for (key, value) in &self.env {
            env.push((key.clone(), self.fill(value, &home)));
        }
        Ok(env)
    }

    fn fill(&self, text: &str, home: &Path) -> String {
        let url = self.model_url.as_deref().unwrap_or_default();
        text.replace("{home}", &home.to_string_lossy())
            .replace("{model_url}", url)
    }

    fn copy(&self, from: &Path, to: &Path, home: &Path, left: &mut usize) -> io::Result<()> {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            *left = left.checked_sub(1).ok_or_else(|| {
                io::Error::other(format!(
                    "the home template contains more than {MAX_FILES} files"
                ))
            })?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_dir() {
                std::fs::create_dir_all(&target)?;
                self.copy(&source, &target, home, left)?;
            } else if kind.is_file() {
                if entry.metadata()?.len() > MAX_FILE_BYTES {
                    let name = source.display();
                    return Err(io::Error::other(format!(
                        "{name} is too large for a home template (maximum: 1 MiB)"
                    )));
                }
                match std::fs::read_to_string(&source) {
                    Ok(text) => std::fs::write(&target, self.fill(&text, home))?,
                    Err(_) => std::fs::copy(&source, &target).map(|_| ())?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_created_from_its_template_only_once() {
        let root = std::env::temp_dir().join(format!("agentproto-home-{}", std::process::id()));
        let template = root.join("template");
        std::fs::create_dir_all(template.join(".x")).unwrap();
        std::fs::write(template.join(".x/config"), "url = {model_url}, {home}").unwrap();
        let home = HomeTemplate {
            template: Some(template),
            env: vec![("X_HOME".into(), "{home}/.x".into())],
            model_url: Some("http://127.0.0.1:1".into()),
        };
        let env = home.create(&root).unwrap();
        let made = root.join("home");
        let name = made.to_string_lossy();
        assert_eq!(env[1], ("X_HOME".to_owned(), format!("{name}/.x")));
        let config = std::fs::read_to_string(made.join(".x/config")).unwrap();
        assert_eq!(config, format!("url = http://127.0.0.1:1, {name}"));
        std::fs::write(made.join(".x/config"), "changed").unwrap();
        home.create(&root).unwrap();
        assert_eq!(
            std::fs::read_to_string(made.join(".x/config")).unwrap(),
            "changed"
        );
        std::fs::remove_dir_all(&root).unwrap();
    }
}
