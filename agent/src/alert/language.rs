//! Rules, actions and silences out of a file.

use std::{borrow::Cow, path::Path, sync::Arc, time::Duration};

use ax_wire::{
    alert::{Severity, Unit},
    rules::SilenceInfo,
};
use jiff::Timestamp;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Action, BySeverity, Metric, Op, Origin, Rule, RuleSet, Threshold,
    action::{
        DEFAULT_RETRIES, DEFAULT_TIMEOUT, Exec, LONGEST_TIMEOUT, MOST_RETRIES, Template, Webhook,
        template, webhook,
    },
};
use crate::config::{
    table::{Fields, instead, text},
    units,
};

/// Rules of one file; more are slow to judge and nobody's to read.
const MAX_RULES: usize = 200;

/// Longest name of a rule.
const MAX_NAME: usize = 60;

/// How long the figure of a rule must be clear, where it does not say.
const DEFAULT_CLEAR_FOR: Duration = Duration::from_secs(10);

/// After it acted, how long a rule does not act again, where it does not say.
const DEFAULT_COOLDOWN: Duration = Duration::from_mins(1);

/// The threshold that is each service's own.
const SNAPSHOT_THRESHOLD: &str = "snapshot";

const SEVERITIES: [(&str, Severity); 4] = [
    ("info", Severity::Info),
    ("warning", Severity::Warning),
    ("critical", Severity::Critical),
    ("page", Severity::Page),
];

/// Reads what a file says of alerts, on top of what is built in. Templates are looked for in `folder`.
pub(crate) fn read(file: &mut Fields<'_, '_>, folder: Option<&Path>) -> RuleSet {
    let mut set = RuleSet::default();
    let built_in = set.rules.len();
    for fields in file.list("rule") {
        read_rule(fields, folder, &mut set);
        if set.rules.len() > built_in + MAX_RULES {
            let why = format!("more than {MAX_RULES} rules");
            file.source.problem(file.span.clone(), why);
            break;
        }
    }
    if let Some(mut fields) = file.fields("actions") {
        let mut of = |key| read_actions(&mut fields, key, folder).unwrap_or_default();
        set.by_severity = BySeverity {
            info: of("info"),
            warning: of("warning"),
            critical: of("critical"),
            page: of("page"),
        };
        fields.finish("[actions]");
    }
    for fields in file.list("silence") {
        set.silences.extend(read_silence(fields, &set.rules));
    }
    set
}

/// The keys of a rule that say the same whatever its metric is; `None` where they are left out.
struct Keys {
    op: Option<Op>,
    hold: Option<Duration>,
    clear_for: Option<Duration>,
    severity: Option<Severity>,
    cooldown: Option<Duration>,
    actions: Option<Vec<Action>>,
    services: Option<Vec<String>>,
    subjects: Option<Vec<String>>,
    enabled: Option<bool>,
}

impl Keys {
    fn read(fields: &mut Fields<'_, '_>, folder: Option<&Path>) -> Self {
        let hold = |value: &DeValue<'_>| {
            match units::duration(&text(value)?)? {
            span if span < Duration::from_secs(1) => Err(
                "rules are judged once a second: write `1s` or more, or leave it out to fire at once"
                    .to_owned(),
            ),
            span => Ok(span),
        }
        };
        Self {
            op: fields.read("op", |value| one_of(&text(value)?, &Op::ALL)),
            hold: fields.read("for", hold),
            clear_for: fields.duration("clear_for"),
            severity: fields.read("severity", |value| one_of(&text(value)?, &SEVERITIES)),
            cooldown: fields.duration("cooldown"),
            actions: read_actions(fields, "actions", folder),
            services: read_names(fields, "services"),
            subjects: read_names(fields, "subjects"),
            enabled: fields.flag("enabled"),
        }
    }

    fn put_into(self, rule: &mut Rule) {
        fn put<T>(place: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *place = value;
            }
        }
        put(&mut rule.op, self.op);
        put(&mut rule.hold, self.hold);
        put(&mut rule.clear_for, self.clear_for);
        put(&mut rule.severity, self.severity);
        put(&mut rule.cooldown, self.cooldown);
        put(&mut rule.services, self.services);
        put(&mut rule.subjects, self.subjects);
        put(&mut rule.enabled, self.enabled);
        rule.actions = self.actions.or(rule.actions.take());
    }
}

/// Adds a rule, or changes the one of the same name. What else is wrong with one that cannot be taken is noted too.
fn read_rule(mut fields: Fields<'_, '_>, folder: Option<&Path>, set: &mut RuleSet) {
    let name = fields.read("name", |value| name_of_rule(&text(value)?));
    let metric = fields.read("metric", |value| {
        let name = text(value)?;
        let known = Metric::all().map(Metric::name);
        Metric::named(&name)
            .ok_or_else(|| format!("unknown metric `{name}`{}", instead(&name, known)))
    });
    let keys = Keys::read(&mut fields, folder);
    // Known before anything is said of unknown keys.
    let has_threshold = fields.value("threshold").is_some();
    let _ = fields.value("clear");
    if let Some(mut rule) = named_rule(&mut fields, name, metric, set) {
        if let Some(threshold) =
            fields.read("threshold", |value| read_threshold(rule.metric, value))
        {
            rule.threshold = threshold;
        }
        // A bound of its own belongs to the threshold that it was written for.
        let clear = fields.read("clear", |value| figure(rule.metric, value));
        rule.clear = clear.or(rule.clear.filter(|_| !has_threshold));
        keys.put_into(&mut rule);
        check_sense(&mut fields, &rule);
        match set.rules.iter_mut().find(|known| known.name == rule.name) {
            Some(known) => *known = rule,
            None => set.rules.push(rule),
        }
    }
    fields.finish("a rule");
}

/// The rule of this name as it was before, or a new one, with its metric; `None` where something is missing, which is
/// noted.
fn named_rule(
    fields: &mut Fields<'_, '_>,
    name: Option<String>,
    metric: Option<Metric>,
    set: &RuleSet,
) -> Option<Rule> {
    let span = fields.span.clone();
    let (line, _) = fields.source.place(span.start);
    let Some(name) = name else {
        if fields.value("name").is_none() {
            fields.source.problem(span, "a rule without a `name`");
        }
        return None;
    };
    let before = set.rules.iter().find(|rule| rule.name == name);
    if let Some(Origin::Line(first)) = before.map(|rule| rule.origin) {
        let why = format!("rule `{name}` stands in line {first} already");
        fields.source.problem(span.clone(), why);
    }
    let Some(metric) = metric.or(before.map(|rule| rule.metric)) else {
        if fields.value("metric").is_none() {
            let hint = instead(&name, set.rules.iter().map(|rule| rule.name.as_ref()));
            let why = format!("a new rule needs a `metric`, and `{name}` is not built in{hint}");
            fields.source.problem(span, why);
        }
        return None;
    };
    let keeps_unit = before.is_some_and(|rule| rule.metric.unit() == metric.unit());
    if fields.value("threshold").is_none() && !keeps_unit {
        let (what, example) = units::kind(metric.unit());
        let why = format!("rule `{name}` needs a `threshold`: {what}, such as {example}");
        fields.source.problem(span, why);
    }
    let rule = before.cloned().unwrap_or_else(|| Rule {
        name: Cow::Owned(name),
        metric,
        op: Op::Above,
        threshold: Threshold::Fixed(0.0),
        clear: None,
        hold: Duration::ZERO,
        clear_for: DEFAULT_CLEAR_FOR,
        severity: Severity::Warning,
        cooldown: DEFAULT_COOLDOWN,
        actions: None,
        services: Vec::new(),
        subjects: Vec::new(),
        enabled: true,
        origin: Origin::BuiltIn,
    });
    Some(Rule {
        metric,
        origin: Origin::Line(line),
        ..rule
    })
}

/// What would have a rule never fire, or end each alert as it begins.
fn check_sense(fields: &mut Fields<'_, '_>, rule: &Rule) {
    if let (Some(clear), Threshold::Fixed(threshold)) = (rule.clear, rule.threshold)
        && rule.op.is_worse(clear, threshold)
        && let Some(value) = fields.value("clear")
    {
        let side = if rule.op.is_upwards() {
            "at or below"
        } else {
            "at or above"
        };
        fields.wrong(value, format!("`clear` must be {side} the threshold"));
    }
    if !rule.subjects.is_empty()
        && !rule.metric.has_subjects()
        && let Some(value) = fields.value("subjects")
    {
        let name = rule.metric.name();
        let why =
            format!("`subjects`: `{name}` is one figure of the whole service; leave this out");
        fields.wrong(value, why);
    }
    let grows = matches!(rule.metric, Metric::BacklogGrowth | Metric::MemoryGrowth);
    let zero = Threshold::Fixed(0.0);
    if rule.op == Op::Below
        && rule.threshold == zero
        && !grows
        && let Some(value) = fields.value("threshold")
    {
        let why = "`threshold`: nothing is below 0, so this would never fire; `<=` fires at 0";
        fields.wrong(value, why.to_owned());
    }
}

fn name_of_rule(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err(format!(
            "expected 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`, found `{name}`"
        ));
    }
    Ok(name.to_owned())
}

fn one_of<T: Copy>(word: &str, known: &[(&'static str, T)]) -> Result<T, String> {
    let mut all = known.iter();
    let found = all.find(|(name, _)| *name == word).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names = known.iter().map(|(name, _)| *name);
        format!("unknown word `{word}`{}", instead(word, names))
    })
}

fn read_threshold(metric: Metric, value: &DeValue<'_>) -> Result<Threshold, String> {
    if value.as_str() == Some(SNAPSHOT_THRESHOLD) && metric.unit() == Unit::Nanoseconds {
        return Ok(Threshold::Snapshot);
    }
    figure(metric, value).map(Threshold::Fixed)
}

/// A figure of a metric: text with a unit, or for a count a bare number.
fn figure(metric: Metric, value: &DeValue<'_>) -> Result<f64, String> {
    let written = match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        other => text(other)?,
    };
    let figure = units::figure(&written, metric.unit())?;
    if metric.unit() == Unit::Share && figure > 1.0 {
        return Err(format!("`{written}`: a share is at most 100%"));
    }
    Ok(figure)
}

fn read_names(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Vec<String>> {
    fields.read(key, |value| {
        let list = value.as_array();
        let list = list.ok_or("expected a list of names: `[\"one\", \"two\"]`")?;
        list.iter().map(|name| text(name.get_ref())).collect()
    })
}

/// A list of actions. `None` where there is none; one that is wrong is noted, and left out.
fn read_actions(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    folder: Option<&Path>,
) -> Option<Vec<Action>> {
    let value = fields.value(key)?;
    let Some(list) = value.get_ref().as_array() else {
        fields.wrong(value, format!("`{key}` is a list: `[\"bell\"]`"));
        return None;
    };
    let actions = list.iter().filter_map(|item| match item.get_ref() {
        DeValue::Table(table) => read_call(fields, item, table, folder),
        other => match text(other).as_deref() {
            Ok("snapshot") => Some(Action::Snapshot),
            Ok("bell") => Some(Action::Bell),
            _ => {
                fields.wrong(
                    item,
                    "expected \"snapshot\", \"bell\", `{ exec = [\"program\"] }` or `{ webhook = \"http://..\" }`",
                );
                None
            }
        },
    });
    Some(actions.collect())
}

/// An action that reaches out.
fn read_call<'s>(
    around: &Fields<'_, 's>,
    item: &Spanned<DeValue<'s>>,
    table: &DeTable<'s>,
    folder: Option<&Path>,
) -> Option<Action> {
    let mut fields = Fields::new(around.source, item.span(), table);
    let argv = fields.read("exec", |value| {
        let list = value
            .as_array()
            .ok_or("expected a list: the program, then its arguments; no shell reads it")?;
        let argv: Result<Vec<_>, _> = list.iter().map(|part| text(part.get_ref())).collect();
        match argv?.as_slice() {
            [] => Err("expected the program and its arguments, found an empty list".to_owned()),
            [program, ..] if program.is_empty() => Err("the program has no name".to_owned()),
            argv => Ok(argv.to_vec()),
        }
    });
    let url = fields.read("webhook", |value| webhook::Url::parse(&text(value)?));
    let timeout = fields.some_time("timeout").unwrap_or(DEFAULT_TIMEOUT);
    if timeout > LONGEST_TIMEOUT
        && let Some(value) = fields.value("timeout")
    {
        fields.wrong(value, "`timeout`: longer than 5m");
    }
    let body = fields.read("body", |value| {
        read_template(Path::new(&text(value)?), folder)
    });
    let resolved = fields.flag("resolved").unwrap_or(true);
    let both = (fields.value("exec"), fields.value("webhook"));
    let action = match both {
        (Some(_), None) => argv.map(|argv| {
            Action::Exec(Arc::new(Exec {
                argv,
                timeout,
                body,
                resolved,
            }))
        }),
        (None, Some(_)) => {
            let retries = fields.count("retries", 0..MOST_RETRIES + 1);
            let headers = read_headers(&mut fields);
            url.map(|url| {
                Action::Webhook(Arc::new(Webhook {
                    url,
                    timeout,
                    retries: retries.unwrap_or(DEFAULT_RETRIES),
                    headers,
                    body,
                    resolved,
                }))
            })
        }
        _ => {
            let why = "an action has either `exec` or `webhook`";
            fields.source.problem(item.span(), why);
            None
        }
    };
    fields.finish("an action");
    action
}

fn read_headers(fields: &mut Fields<'_, '_>) -> Vec<(String, String)> {
    let headers = fields.read("headers", |value| {
        let table = value.as_table();
        let table = table.ok_or("expected a table: `{ Authorization = \"Bearer ..\" }`")?;
        let headers = table.iter().map(|(name, value)| {
            let value = text(value.get_ref())?;
            webhook::check_header(name.get_ref(), &value)?;
            Ok((name.get_ref().to_string(), value))
        });
        headers.collect::<Result<Vec<_>, String>>()
    });
    headers.unwrap_or_default()
}

fn read_template(path: &Path, folder: Option<&Path>) -> Result<Template, String> {
    let path = folder.map_or_else(|| path.to_owned(), |folder| folder.join(path));
    let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let meta = std::fs::metadata(&path).map_err(|error| told(&error))?;
    if !meta.is_file() || meta.len() > template::MAX_BYTES {
        return Err(told(&"no file, or longer than 64 KiB"));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| told(&error))?;
    Template::parse(&text).map_err(|why| told(&why))
}

fn read_silence(mut fields: Fields<'_, '_>, rules: &[Rule]) -> Option<SilenceInfo> {
    let rule = fields.read("rule", |value| {
        let name = text(value)?;
        let known = rules.iter().map(|rule| rule.name.as_ref());
        if rules.iter().any(|rule| rule.name == name) {
            Ok(name)
        } else {
            Err(format!("unknown rule `{name}`{}", instead(&name, known)))
        }
    });
    let (service, subject) = (fields.text("service"), fields.text("subject"));
    let reason = fields.text("reason");
    let until = fields.read("until", |value| {
        let written = match value {
            DeValue::Datetime(at) => at.to_string(),
            other => text(other)?,
        };
        let at: Timestamp = written.parse().map_err(|_| {
            format!(
                "`{written}` is no instant: write date, time and offset as `2026-12-01T08:00:00Z`"
            )
        })?;
        u64::try_from(at.as_nanosecond()).map_err(|_| format!("`{written}` is before 1970"))
    });
    let missing = [("until", until.is_none()), ("reason", reason.is_none())];
    for (key, missing) in missing {
        if missing && fields.value(key).is_none() {
            fields
                .source
                .problem(fields.span.clone(), format!("a silence without `{key}`"));
        }
    }
    let named = ["rule", "service", "subject"];
    if named.into_iter().all(|key| fields.value(key).is_none()) {
        let why = "a silence of everything: name a `rule`, a `service` or a `subject`";
        fields.source.problem(fields.span.clone(), why);
    }
    fields.finish("a silence");
    Some(SilenceInfo {
        rule,
        service,
        subject,
        uid: None,
        until_unix_ns: until?,
        reason: reason?,
        by: "file".to_owned(),
    })
}
