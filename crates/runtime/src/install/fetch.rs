//! Downloads over https (http only from this machine), with limits on size, time and redirects. The
//! SHA-256 is computed during the download. A file with the wrong digest is deleted before it can
//! be used (A29-INSTALL-17, A29-SEC-02).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fluent_uri::{Uri, UriRef};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use ureq::tls::{RootCerts, TlsConfig};

use crate::context::Context;
use crate::observe::Stage;

const MAX_REDIRECTS: usize = 10;
/// Time limit for a whole download.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Time limit without any received data.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// A file to download, with its limits.
pub struct Download {
    pub url: String,
    pub sha256: Option<String>,
    pub max_bytes: u64,
    /// The target file. It is created, and removed again on any failure.
    pub to: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Network(String),
    #[error("SHA-256 mismatch for `{url}`: expected {expected}, found {found}")]
    Digest {
        url: String,
        found: String,
        expected: String,
    },
    #[error("cannot write the download: {0}")]
    Disk(#[source] io::Error),
}

/// Whether a URL may be fetched. `secure` is set if a redirect from https leads to it.
pub fn check_url(text: &str, secure: bool) -> Result<(), String> {
    let Ok(uri) = Uri::parse(text) else {
        return Err(format!("`{text}` is not a URL"));
    };
    let Some(authority) = uri.authority() else {
        return Err(format!("`{text}` has no host"));
    };
    if authority.userinfo().is_some() {
        return Err("the URL must not contain a user name or password".to_owned());
    }
    let host = authority.host();
    match uri.scheme().as_str() {
        "https" if !host.is_empty() => Ok(()),
        "http" if secure => Err(format!(
            "redirect from https to http://{host} is not allowed"
        )),
        "http" if is_loopback(host) => Ok(()),
        "http" => Err(format!("http://{host} is not secure: use https")),
        other => Err(format!("unsupported scheme `{other}:`: use https")),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|a| a.is_loopback())
}

/// Downloads a file, and reports progress to the observer.
pub async fn fetch(ctx: &Context, download: Download) -> Result<(), FetchError> {
    let proxy = Proxies::from_environment(ctx);
    let cancelled = Arc::new(AtomicBool::new(false));
    let guard = CancelOnDrop(Arc::clone(&cancelled));
    let url = download.url.clone();
    let to = download.to.clone();
    let (sender, mut progress) = mpsc::unbounded_channel();
    let (done, outcome) = tokio::sync::oneshot::channel();
    // Uses its own thread, so that nothing waits for it when the caller is gone.
    let started = std::thread::Builder::new()
        .name("fetch".to_owned())
        .spawn(move || {
            let job = DownloadJob {
                download: &download,
                proxy: &proxy,
                cancelled: &cancelled,
                progress: &sender,
            };
            let result = job.run();
            if result.is_err() {
                let _ = std::fs::remove_file(&download.to);
            }
            let _ = done.send(result);
        });
    started.map_err(FetchError::Disk)?;
    loop {
        match tokio::time::timeout(IDLE_TIMEOUT, progress.recv()).await {
            Ok(Some((bytes, total))) => {
                ctx.observer.progress(Stage::Install, &amount(bytes, total));
            }
            Ok(None) => break,
            Err(_) => {
                let _ = std::fs::remove_file(&to);
                let seconds = IDLE_TIMEOUT.as_secs();
                return Err(FetchError::Network(format!(
                    "`{url}` sent nothing for {seconds} s"
                )));
            }
        }
    }
    let result = outcome.await;
    drop(guard);
    result.unwrap_or_else(|_| Err(FetchError::Network(format!("cannot fetch `{url}`"))))
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn amount(bytes: u64, total: Option<u64>) -> String {
    let format_size = |n: u64| match n {
        0..=1023 => format!("{n} bytes"),
        1024..=1_048_575 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1_048_576.0),
    };
    match total {
        Some(total) if total > bytes => format!("{} of {}", format_size(bytes), format_size(total)),
        _ => format!("{} fetched", format_size(bytes)),
    }
}

struct DownloadJob<'a> {
    download: &'a Download,
    proxy: &'a Proxies,
    cancelled: &'a AtomicBool,
    progress: &'a mpsc::UnboundedSender<(u64, Option<u64>)>,
}

impl DownloadJob<'_> {
    fn run(&self) -> Result<(), FetchError> {
        let deadline = Instant::now() + DOWNLOAD_TIMEOUT;
        let mut url = self.download.url.clone();
        let mut secure = false;
        for _ in 0..=MAX_REDIRECTS {
            check_url(&url, secure).map_err(FetchError::Refused)?;
            secure = url.starts_with("https:");
            let mut response = self.request(&url, deadline)?;
            let status = response.status();
            if !status.is_redirection() {
                if !status.is_success() {
                    return Err(FetchError::Network(format!(
                        "`{}` responded with {status}",
                        self.download.url
                    )));
                }
                let total = response.body().content_length();
                return self.save(response.body_mut().as_reader(), total);
            }
            let location = response.headers().get("location");
            let next = location.and_then(|l| l.to_str().ok());
            url = next.and_then(|next| resolve(&url, next)).ok_or_else(|| {
                FetchError::Network(format!(
                    "`{}` responded with {status}, but without a valid `Location`",
                    self.download.url
                ))
            })?;
        }
        Err(FetchError::Network(format!(
            "`{}` redirects more than {MAX_REDIRECTS} times",
            self.download.url
        )))
    }

    fn request(
        &self,
        url: &str,
        deadline: Instant,
    ) -> Result<ureq::http::Response<ureq::Body>, FetchError> {
        let network = |e: ureq::Error| {
            FetchError::Network(format!("cannot fetch `{}`: {e}", self.download.url))
        };
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .build();
        let config = ureq::config::Config::builder()
            .tls_config(tls)
            .proxy(self.proxy.for_url(url).map_err(network)?)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            // The digest is computed over the bytes as they are on the server.
            .accept_encoding("identity")
            .user_agent(concat!("agentproto/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .timeout_global(Some(deadline.saturating_duration_since(Instant::now())))
            .build();
        let agent = ureq::Agent::new_with_config(config);
        agent.get(url).call().map_err(network)
    }

    fn save(&self, mut body: impl Read, total: Option<u64>) -> Result<(), FetchError> {
        let too_large = || {
            FetchError::Refused(format!(
                "`{}` is larger than {} MiB",
                self.download.url,
                self.download.max_bytes >> 20
            ))
        };
        if total.is_some_and(|total| total > self.download.max_bytes) {
            return Err(too_large());
        }
        let mut file = create(&self.download.to).map_err(FetchError::Disk)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 << 10];
        let mut read = 0;
        let mut last_report = Instant::now();
        loop {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(FetchError::Network("canceled".to_owned()));
            }
            let n = body.read(&mut buffer).map_err(|e| {
                FetchError::Network(format!(
                    "the download of `{}` was interrupted: {e}",
                    self.download.url
                ))
            })?;
            if n == 0 {
                break;
            }
            read += n as u64;
            if read > self.download.max_bytes {
                return Err(too_large());
            }
            let chunk = buffer.get(..n).unwrap_or_default();
            hasher.update(chunk);
            file.write_all(chunk).map_err(FetchError::Disk)?;
            if last_report.elapsed() >= PROGRESS_INTERVAL {
                last_report = Instant::now();
                let _ = self.progress.send((read, total));
            }
        }
        if total.is_some_and(|total| total != read) {
            return Err(FetchError::Network(format!(
                "the download of `{}` was interrupted after {read} bytes",
                self.download.url
            )));
        }
        let _ = self.progress.send((read, total));
        let found = agentproto_text::hex(&hasher.finalize());
        match &self.download.sha256 {
            Some(expected) if *expected != found => Err(FetchError::Digest {
                url: self.download.url.clone(),
                found,
                expected: expected.clone(),
            }),
            _ => Ok(()),
        }
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// Resolves a `Location` header against the current URL.
fn resolve(base: &str, location: &str) -> Option<String> {
    let base = Uri::parse(base).ok()?;
    let base = base.strip_fragment();
    let target = UriRef::parse(location).ok()?;
    Some(target.resolve_against(&base).ok()?.to_string())
}

/// The caller's proxies, from the usual environment variables.
struct Proxies {
    https: Option<String>,
    none: Vec<String>,
}

impl Proxies {
    fn from_environment(ctx: &Context) -> Proxies {
        let variable = |names: &[&str]| {
            names.iter().find_map(|name| {
                let value = ctx.variable(name)?.to_str()?;
                (!value.is_empty()).then(|| value.to_owned())
            })
        };
        let none = variable(&["no_proxy", "NO_PROXY"]).unwrap_or_default();
        Proxies {
            https: variable(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            none: none
                .split(',')
                .map(|host| host.trim().trim_start_matches('.').to_ascii_lowercase())
                .filter(|host| !host.is_empty())
                .collect(),
        }
    }

    fn for_url(&self, url: &str) -> Result<Option<ureq::Proxy>, ureq::Error> {
        let uri = Uri::parse(url).ok();
        let host = uri.and_then(|u| Some(u.authority()?.host().to_ascii_lowercase()));
        let host = host.unwrap_or_default();
        let direct = |none: &String| {
            none == "*"
                || host == *none
                || host
                    .strip_suffix(none.as_str())
                    .is_some_and(|rest| rest.ends_with('.'))
        };
        match &self.https {
            Some(proxy) if !is_loopback(&host) && !self.none.iter().any(direct) => {
                ureq::Proxy::new(proxy).map(Some)
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine() {
        for url in [
            "https://example.com/a",
            "http://127.0.0.1:80/a",
            "http://localhost/a",
            "http://[::1]:9/a",
        ] {
            assert_eq!(check_url(url, false), Ok(()), "{url}");
        }
        for url in [
            "http://example.com/a",
            "http://127.0.0.1.example.com/a",
            "file:///etc/passwd",
            "ftp://example.com/a",
            "https:///a",
            "a",
            "",
            "https://user:word@example.com/",
        ] {
            assert!(check_url(url, false).is_err(), "{url}");
        }
        assert!(check_url("http://127.0.0.1/a", true).is_err());
    }

    #[test]
    fn locations_are_resolved() {
        let to = |location| resolve("https://a.example/x/y?q#f", location);
        assert_eq!(to("/z").as_deref(), Some("https://a.example/z"));
        assert_eq!(to("z").as_deref(), Some("https://a.example/x/z"));
        assert_eq!(to("//b.example/z").as_deref(), Some("https://b.example/z"));
        assert_eq!(to("http://b/").as_deref(), Some("http://b/"));
    }

    #[test]
    fn proxies_are_not_used_for_excluded_hosts() {
        let proxies = Proxies {
            https: Some("http://proxy.example:8080".to_owned()),
            none: vec!["corp.example".to_owned()],
        };
        let used = |url| proxies.for_url(url).expect("a proxy").is_some();
        assert!(used("https://example.com/"));
        assert!(used("https://notcorp.example/"));
        assert!(!used("https://corp.example/"));
        assert!(!used("https://a.corp.example/"));
        assert!(!used("http://127.0.0.1/"));
    }
}
