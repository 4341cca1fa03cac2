//! What is declared read-only must not be seen to change anything.

use super::rules::READ_ONLY;
use crate::aoi::observe::{Effect, Sequence, declares, is_mutating, within};
use crate::aoi::probe::Command;
use crate::aoi::session::{How, Session};
use crate::aoi::sheet::Sheet;

pub async fn check(session: &Session) {
    for command in session.commands() {
        let said = declares(session, command, "read_only") || command.read_only == Some(true);
        // What only the probe file calls mutating runs as such; what nobody vouches for, not.
        if !said || command.unbounded || command.needs_auth {
            continue;
        }
        let mut sheet = Sheet::new(session.judge(&command.name));
        let looked = within(session, command, &READ_ONLY, async |sequence| {
            look(sequence, command, &mut sheet).await
        });
        match looked.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => sheet.not_verified(&READ_ONLY, why),
            Err(blocked) => blocked.tell(&mut sheet, &[&READ_ONLY]),
        }
        sheet.settle(&[&READ_ONLY], "the probe did not come that far");
    }
}

async fn look(
    sequence: &Sequence<'_>,
    command: &Command,
    sheet: &mut Sheet<'_>,
) -> Result<(), String> {
    let id = sequence.target().await?;
    let before = sequence.observe().await?;
    let call = match is_mutating(sequence.session, command) {
        true => sequence.confirmed(id.as_deref()),
        false => sequence.bare(id.as_deref()),
    };
    let run = sequence.run("read-only", &call, How::default()).await;
    let after = sequence.observe().await?;
    match before.effect(&after) {
        Effect::Some { told, .. } => {
            sheet.broken(&READ_ONLY, format!("declared read-only, but {told}"), &run);
        }
        Effect::None => sheet.pass(
            &READ_ONLY,
            "what `observe` shows is the same before and after",
        ),
        Effect::Unseen => sheet.not_verified(&READ_ONLY, super::UNSEEN),
    }
    Ok(())
}
