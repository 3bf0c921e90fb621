//! What is taken out of command lines and URLs before they are kept or shown.

/// Words that make a name one of a secret, wherever they stand in it; `-` counts as `_`.
const WORDS: [&str; 14] = [
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "authorization",
    "cookie",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "signature",
    "credential",
    "session",
];

/// Whole names of secrets, that are parts of harmless ones.
const NAMES: [&str; 5] = ["key", "sig", "pass", "auth", "jwt"];

/// Options of load tools whose value is often a secret.
const OPTIONS: [&str; 6] = ["-H", "--header", "-a", "-u", "--user", "--pass"];

/// What stands in its place.
const GONE: &str = "[redacted]";

fn has_word(text: &str) -> bool {
    let text = text.to_ascii_lowercase().replace('-', "_");
    WORDS.iter().any(|word| text.contains(word))
}

/// The command line as it may be kept: arguments that look like secrets are taken out.
pub fn without_secrets(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut hide_next = false;
    for argument in arguments {
        let (before, url) = split_at_url(argument);
        let secret = has_word(before);
        let hidden = hide_next || (secret && argument.contains([':', '=']));
        kept.push(match url {
            _ if hidden => GONE.to_owned(),
            Some(url) => format!("{before}{}", url_without_secrets(url)),
            None => argument.clone(),
        });
        hide_next = OPTIONS.contains(&argument.as_str())
            || (secret && argument.starts_with('-') && !argument.contains('='));
    }
    kept
}

/// What stands before a URL in an argument, and the URL.
fn split_at_url(argument: &str) -> (&str, Option<&str>) {
    let begins = ["http://", "https://"]
        .into_iter()
        .filter_map(|scheme| argument.find(scheme))
        .min();
    match begins {
        Some(begins) => (&argument[..begins], Some(&argument[begins..])),
        None => (argument, None),
    }
}

/// A URL as it may be kept: without user and password, and without the values of parameters whose name is one of a secret.
pub fn url_without_secrets(url: &str) -> String {
    let (address, query) = match url.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (url, None),
    };
    let mut kept = without_user(address);
    if let Some(query) = query {
        let parameters = query
            .split('&')
            .map(|parameter| match parameter.split_once('=') {
                Some((name, value)) if !value.is_empty() && is_secret(name) => {
                    format!("{name}={GONE}")
                }
                _ => parameter.to_owned(),
            });
        let parameters: Vec<_> = parameters.collect();
        kept = format!("{kept}?{}", parameters.join("&"));
    }
    kept
}

fn without_user(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{GONE}@{host}{path}"),
        None => address.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    has_word(name) || NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_parameters_are_taken_out_of_a_url() {
        for (typed, kept) in [
            (
                "http://127.0.0.1:1/a?token=abc&page=2&X-Api-Key=d",
                "http://127.0.0.1:1/a?token=[redacted]&page=2&X-Api-Key=[redacted]",
            ),
            (
                "https://h/?key=1&monkey=2&sig=",
                "https://h/?key=[redacted]&monkey=2&sig=",
            ),
            (
                "http://me:geheim@h:1/p@q?a=b",
                "http://[redacted]@h:1/p@q?a=b",
            ),
            ("http://127.0.0.1:1/a?b=c", "http://127.0.0.1:1/a?b=c"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ] {
            assert_eq!(url_without_secrets(typed), kept);
        }
    }

    #[test]
    fn arguments_that_look_like_secrets_are_taken_out() {
        let kept = |line: &str| {
            let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
            without_secrets(&arguments).join(" ")
        };
        assert_eq!(
            kept("wrk -c20 --latency http://127.0.0.1:1/?token=abc&n=1"),
            "wrk -c20 --latency http://127.0.0.1:1/?token=[redacted]&n=1"
        );
        assert_eq!(
            kept("hey -H Authorization:x -c 5 --api-token y --url=http://u:p@h/ -z 5s"),
            "hey -H [redacted] -c 5 --api-token [redacted] --url=http://[redacted]@h/ -z 5s"
        );
        assert_eq!(kept("t password=http://h/"), "t [redacted]");
    }
}
