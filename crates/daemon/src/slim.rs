//! Most of its program a host needs only to begin sessions. What of that lies in memory is let go
//! a moment after the last beginning; the system brings back what is used again, from its cache
//! of the file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Beginnings come in crowds.
const SETTLE: Duration = Duration::from_millis(500);

/// Somebody waits already.
static SOON: AtomicBool = AtomicBool::new(false);

/// Called where a session has begun.
pub fn soon() {
    if SOON.swap(true, Ordering::AcqRel) {
        return;
    }
    let over = Over;
    tokio::spawn(async move {
        tokio::time::sleep(SETTLE).await;
        drop(over);
        let_go();
    });
}

/// Whatever becomes of the wait, the next one is not kept from waiting.
struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        SOON.store(false, Ordering::Release);
    }
}

#[cfg(target_os = "linux")]
fn let_go() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return;
    };
    let Ok(program) = std::fs::read_link("/proc/self/exe") else {
        return;
    };
    let program = program.to_string_lossy();
    for (start, end) in maps.lines().filter_map(|line| code(line, &program)) {
        // SAFETY: a whole mapping of code, which nobody writes to: its pages are those of the
        // file, and are read from there when they are needed.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(target_os = "linux"))]
fn let_go() {}

/// The place of a mapping that is code of the program.
#[cfg(target_os = "linux")]
fn code(line: &str, program: &str) -> Option<(usize, usize)> {
    let place = line.strip_suffix(program)?.trim_end();
    let mut fields = place.split(' ');
    let (range, rights) = (fields.next()?, fields.next()?);
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    (rights == "r-xp").then_some((number(start)?, number(end)?))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_let_go() {
        let code = |line| code(line, "/usr/bin/tool");
        assert_eq!(
            code("1000-3000 r-xp 00001000 fe:00 12    /usr/bin/tool"),
            Some((0x1000, 0x3000))
        );
        for other in [
            "1000-3000 r--p 00001000 fe:00 12    /usr/bin/tool",
            "1000-3000 rwxp 00001000 fe:00 12    /usr/bin/tool",
            "1000-3000 rw-p 00001000 fe:00 12    /usr/bin/tool",
            "1000-3000 r-xp 00001000 fe:00 12    /usr/lib/libc.so.6",
            "1000-3000 r-xp 00000000 00:00 0     [vdso]",
            "1000-3000 r-xp 00001000 fe:00 12    /usr/bin/tool (deleted)",
            "",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    /// In kB, what of the program's code is in memory.
    fn resident() -> u64 {
        let program = std::fs::read_link("/proc/self/exe").expect("a program");
        let program = program.to_string_lossy().into_owned();
        let text = std::fs::read_to_string("/proc/self/smaps").expect("readable");
        let mut lines = text.lines();
        let mut all = 0;
        while let Some(line) = lines.next() {
            if code(line, &program).is_some() {
                let size = lines.find_map(|line| line.strip_prefix("Rss:"));
                let size = size.and_then(|size| size.trim().strip_suffix(" kB"));
                all += size.expect("a size").parse::<u64>().expect("a number");
            }
        }
        all
    }

    #[tokio::test]
    async fn code_that_was_used_once_does_not_stay() {
        // Every page of it, as if all had run.
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        let path = std::fs::read_link("/proc/self/exe").expect("a program");
        for (start, end) in maps
            .lines()
            .filter_map(|l| code(l, &path.to_string_lossy()))
        {
            for page in (start..end).step_by(4096) {
                // SAFETY: mapped, and readable.
                unsafe { std::ptr::read_volatile(page as *const u8) };
            }
        }
        let before = resident();
        soon();
        soon();
        // Other tests run beside this one, and bring back what they use.
        let mut least = before;
        for _ in 0..100 {
            tokio::time::sleep(SETTLE / 20).await;
            least = least.min(resident());
        }
        assert!(least < before / 2, "{before} kB, then {least} kB");
    }
}
