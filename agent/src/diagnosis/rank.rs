//! Puts the cause first. Much that looks wrong follows from something else: a lane is full because the loop was stalled,
//! a pool is empty because the process got no CPU. What is explained stands below what explains it.

use ax_wire::verdict::{Explained, VerdictId};

use super::{RULES, answer::Finding, follows::because};

/// A finding in its place, with those that follow from it.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub(crate) finding: Finding,
    pub(crate) explains: Vec<Explained>,
}

/// Likeliest cause first.
pub(crate) fn rank(findings: Vec<Finding>) -> Vec<Ranked> {
    let mut findings = findings;
    findings.sort_by(|a, b| {
        let order = |finding: &Finding| (std::cmp::Reverse(finding.severity), tier(finding.id));
        order(a)
            .cmp(&order(b))
            .then(b.confidence.total_cmp(&a.confidence))
    });
    // The nearest cause of each, where one has any: the first in the order of rules, which goes from the machine to the
    // service's own lanes.
    let mut by_tier: Vec<usize> = (0..findings.len()).collect();
    by_tier.sort_by_key(|at| tier(findings[*at].id));
    let causes: Vec<Option<(usize, String)>> = findings
        .iter()
        .enumerate()
        .map(|(at, finding)| {
            by_tier
                .iter()
                .filter(|cause| **cause != at)
                .find_map(|cause| Some((*cause, because(&findings[*cause], finding)?)))
        })
        .collect();
    let root = |mut at: usize| {
        // A circle of explanations would be a fault of ours; it ends where it began.
        for _ in 0..findings.len() {
            match &causes[at] {
                Some((cause, _)) => at = *cause,
                None => break,
            }
        }
        at
    };
    let explained_by: Vec<Option<(usize, Explained)>> = (0..findings.len())
        .map(|at| {
            let (_, because) = causes[at].as_ref()?;
            let explained = Explained {
                id: findings[at].id,
                subject: findings[at].subject.clone(),
                because: because.clone(),
            };
            Some((root(at), explained))
        })
        .collect();
    let mut ranked: Vec<(bool, Ranked)> = findings
        .into_iter()
        .enumerate()
        .map(|(at, finding)| {
            let explains = explained_by
                .iter()
                .flatten()
                .filter(|(cause, _)| *cause == at);
            let explains = explains.map(|(_, explained)| explained.clone()).collect();
            let is_explained = explained_by[at].is_some();
            (is_explained, Ranked { finding, explains })
        })
        .collect();
    ranked.sort_by_key(|(is_explained, _)| *is_explained);
    ranked.into_iter().map(|(_, ranked)| ranked).collect()
}

/// The place of a cause in [`RULES`].
fn tier(id: VerdictId) -> usize {
    let mut rules = RULES.iter();
    rules
        .position(|rule| rule.id() == id)
        .unwrap_or(RULES.len())
}
