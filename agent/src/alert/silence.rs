//! Silences: alerts that nobody is to be told of for a while.

use ax_wire::{
    alert::{Alert, Silenced},
    rules::{SilenceInfo, SilenceRequest},
};
use serde::{Deserialize, Serialize};

use crate::clock::Now;

/// Silences that were asked for and are in force at once, over all users.
pub const MAX_SILENCES: usize = 200;

/// The longest one that can be asked for: what is to be silent for longer is a rule to be switched off.
const LONGEST_NS: u64 = 31 * 24 * 3_600_000_000_000;

/// Whether a silence covers alerts of a rule on a subject of a service now.
#[must_use]
pub fn covers(
    silence: &SilenceInfo,
    (uid, service): (u32, &str),
    rule: &str,
    subject: Option<&str>,
    now: Now,
) -> bool {
    let fits = |wanted: &Option<String>, is: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| Some(wanted) == is)
    };
    now.unix_ns < silence.until_unix_ns
        && silence.uid.is_none_or(|wanted| wanted == uid)
        && fits(&silence.rule, Some(rule))
        && fits(&silence.service, Some(service))
        && fits(&silence.subject, subject)
}

/// What an alert says of the silence among these that covers it the longest.
pub(crate) fn covering(
    silences: &[SilenceInfo],
    service: (u32, &str),
    alert: &Alert,
    now: Now,
) -> Option<Silenced> {
    let subject = alert.subject.as_deref();
    let covers = |silence: &&SilenceInfo| covers(silence, service, &alert.rule, subject, now);
    let longest = silences
        .iter()
        .filter(covers)
        .max_by_key(|silence| silence.until_unix_ns)?;
    Some(Silenced {
        until_unix_ns: longest.until_unix_ns,
        reason: longest.reason.clone(),
    })
}

/// The silences that viewers have asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Asked(Vec<SilenceInfo>);

impl Asked {
    /// Those from before a restart of the agent.
    #[must_use]
    pub fn resume(silences: Vec<SilenceInfo>) -> Self {
        let mut silences = silences;
        silences.truncate(MAX_SILENCES);
        Self(silences)
    }

    /// Those in force.
    #[must_use]
    pub fn all(&self) -> &[SilenceInfo] {
        &self.0
    }

    /// Drops those that are over.
    pub fn forget(&mut self, now: Now) {
        self.0.retain(|silence| now.unix_ns < silence.until_unix_ns);
    }

    /// Does what a viewer asks for. `user` asks; `of` is whose services it is for, `None` for those of all users.
    /// Returns what began or ended.
    ///
    /// # Errors
    ///
    /// Why nothing changed, for a person.
    pub fn ask(
        &mut self,
        request: SilenceRequest,
        user: u32,
        of: Option<u32>,
        now: Now,
    ) -> Result<Vec<SilenceInfo>, String> {
        self.forget(now);
        let same = |info: &SilenceInfo| {
            (&info.rule, &info.service, &info.subject)
                == (&request.rule, &request.service, &request.subject)
                && info.uid == of
        };
        if request.for_ns == 0 {
            let ended: Vec<_> = self.0.extract_if(.., |silence| same(silence)).collect();
            if ended.is_empty() {
                return Err(
                    "no silence was asked for with this rule, service and subject".to_owned(),
                );
            }
            return Ok(ended);
        }
        if request.for_ns > LONGEST_NS {
            return Err(
                "that is longer than 31 days: switch the rule off in the file instead".to_owned(),
            );
        }
        // One that is asked for again takes the place of the one before.
        self.0.retain(|silence| !same(silence));
        if self.0.len() >= MAX_SILENCES {
            return Err(format!(
                "{MAX_SILENCES} silences are in force; end one first"
            ));
        }
        let info = SilenceInfo {
            rule: request.rule,
            service: request.service,
            subject: request.subject,
            uid: of,
            until_unix_ns: now.unix_ns.saturating_add(request.for_ns),
            reason: request.reason,
            by: format!("user {user}"),
        };
        self.0.push(info.clone());
        Ok(vec![info])
    }
}
