//! `fs/read_text_file` and `fs/write_text_file`, limited to the directories of the case.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Reply;

/// Maximum size in bytes of a file that can be read.
const MAX_BYTES: u64 = 8 << 20;

pub fn read(params: &Value, root: &Path) -> Reply {
    let path = inside(params, root)?;
    let size = std::fs::metadata(&path).map(|meta| meta.len());
    match size {
        Ok(size) if size <= MAX_BYTES => {}
        Ok(_) => return Err((-32603, "the file is too large".to_owned())),
        Err(error) => return Err((-32002, error.to_string())),
    }
    let text = std::fs::read_to_string(&path).map_err(|e| (-32603, e.to_string()))?;
    let first = params.get("line").and_then(Value::as_u64).unwrap_or(1);
    let limit = params.get("limit").and_then(Value::as_u64);
    let skip = usize::try_from(first.saturating_sub(1)).unwrap_or(usize::MAX);
    let take = limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let lines = text.split_inclusive('\n').skip(skip).take(take);
    Ok(json!({"content": lines.collect::<String>()}))
}

pub fn write(params: &Value, root: &Path) -> Reply {
    let path = inside(params, root)?;
    let content = params.get("content").and_then(Value::as_str);
    let content = content.ok_or((-32602, "`content` is missing".to_owned()))?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|e| (-32603, e.to_string()))?;
    }
    std::fs::write(&path, content).map_err(|e| (-32603, e.to_string()))?;
    Ok(json!({}))
}

fn inside(params: &Value, root: &Path) -> Result<PathBuf, (i64, String)> {
    let path = params.get("path").and_then(Value::as_str);
    let path = path.ok_or((-32602, "`path` is missing".to_owned()))?;
    let path = Path::new(path);
    // A monitor reports relative paths. The turn must continue anyway.
    let path = match path.is_absolute() {
        true => path.to_owned(),
        false => root.join("work").join(path),
    };
    let up = path
        .components()
        .any(|c| matches!(c, std::path::Component::ParentDir));
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    // Resolve the deepest existing directory, so that a symlink cannot lead outside.
    let mut existing = path.as_path();
    let real = loop {
        match existing.canonicalize() {
            Ok(real) => break real,
            Err(_) => match existing.parent() {
                Some(parent) => existing = parent,
                None => break PathBuf::from("/"),
            },
        }
    };
    if up || !real.starts_with(&root) {
        return Err((-32602, format!("{} is outside the session", path.display())));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_the_root_are_accessible() {
        let dir = std::env::temp_dir().join(format!("agentproto-files-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("work")).unwrap();
        let path = dir.join("work/a.txt");
        let name = path.to_str().unwrap();
        assert_eq!(
            write(&json!({"path": name, "content": "1\n2\n3\n"}), &dir),
            Ok(json!({}))
        );
        assert_eq!(
            read(&json!({"path": name, "line": 2, "limit": 1}), &dir),
            Ok(json!({"content": "2\n"}))
        );
        let gone = dir.join("work/none.txt");
        let missing = read(&json!({"path": gone.to_str().unwrap()}), &dir);
        assert_eq!(missing.unwrap_err().0, -32002);
        assert!(read(&json!({"path": "/etc/hostname"}), &dir).is_err());
        std::os::unix::fs::symlink("/", dir.join("work/out")).unwrap();
        let link = dir.join("work/out/etc/hostname");
        assert!(read(&json!({"path": link.to_str().unwrap()}), &dir).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
