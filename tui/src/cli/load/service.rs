//! The service to look into: the one that listens where the load goes, or the one that was named.

use std::net::{IpAddr, SocketAddr};

use ax_wire::view::{ServiceState, ServiceSummary, ServiceView};
use http::Uri;

use super::arguments::Run;
use crate::{
    cli::{
        Failure,
        session::{Session, matches, no_service},
    },
    format::printable,
    load::{
        listens::{Listens, listens},
        runner::Source,
    },
};

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// The newest that is known of the service. `None`: only the outside is seen.
    pub view: Option<ServiceView>,
    /// What must be known to believe what is said of it.
    pub doubt: Option<String>,
}

/// Looks for the service.
///
/// # Errors
///
/// It is needed, and there is none, or which one it is cannot be known; or it has no such lane.
pub async fn find(agent: &mut Session, arguments: &Run, source: &Source) -> Result<Found, Failure> {
    let wanted = arguments.service.as_deref();
    let live =
        |service: &&ServiceSummary| service.state == ServiceState::Live && matches(service, wanted);
    let reached = agent
        .wait(|world| {
            let mut services = world.services.iter().filter(live).peekable();
            let any = services.peek().is_some();
            any && services.all(|service| world.newest_view(service.instance).is_some())
        })
        .await;
    let needed = wanted.is_some()
        || matches!(source, Source::Command(_))
        || !arguments.inject.is_empty()
        || arguments
            .abort
            .iter()
            .any(crate::load::abort::Abort::needs_service);
    let views = reached.and_then(|()| {
        let services = agent.wanted(wanted)?;
        let views: Vec<_> = services
            .into_iter()
            .filter(live)
            .filter_map(|service| agent.world.newest_view(service.instance))
            .map(|view| view.as_ref().clone())
            .collect();
        if views.is_empty() {
            return Err(Failure::Unknown(no_service(&agent.world.link)));
        }
        Ok(views)
    });
    let views = match views {
        Ok(views) => views,
        Err(failure) if needed => return Err(failure),
        Err(_) => {
            return Ok(Found {
                view: None,
                doubt: Some(
                    "no service with a probe is connected: lag, lanes and what filled first are unknown".to_owned(),
                ),
            });
        }
    };
    let addresses = addresses(source);
    let known: Vec<_> = views
        .iter()
        .map(|view| Candidate {
            name: format!(
                "{} (pid {})",
                printable(&view.summary.service),
                view.summary.pid
            ),
            listens: addresses.as_deref().map(|addresses| at(view, addresses)),
        })
        .collect();
    let place = addresses.as_deref().and_then(<[_]>::first);
    match choose(&known, place, wanted.is_some()) {
        Choice::Join(index, doubt) => {
            let view = views[index].clone();
            has_lane(&view, arguments.lane.as_deref())?;
            Ok(Found {
                view: Some(view),
                doubt,
            })
        }
        Choice::Ambiguous(why) => Err(Failure::Usage(why)),
        Choice::Nobody(why) if needed => Err(Failure::Usage(format!(
            "{why}, and a wrapped command, --inject and --abort with lag_p99 or pending need it. If it is one of them behind a proxy, name it with --service"
        ))),
        Choice::Nobody(why) => Ok(Found {
            view: None,
            doubt: Some(format!(
                "{why}: lag, lanes and what filled first are unknown. If it is one of them behind a proxy, name it with --service"
            )),
        }),
    }
}

fn at(view: &ServiceView, addresses: &[SocketAddr]) -> Listens {
    if addresses
        .iter()
        .all(|address| address.ip().to_canonical().is_loopback())
    {
        listens(view, addresses)
    } else {
        Listens::Unknown("the address is not this host's loopback".to_owned())
    }
}

/// Where the load goes. A wrapped command says it only where one of its arguments is a URL of this host.
fn addresses(source: &Source) -> Option<Vec<SocketAddr>> {
    match source {
        Source::Http { target, .. } => Some(target.addresses.to_vec()),
        Source::Command(arguments) => arguments.iter().find_map(|argument| {
            let uri: Uri = argument.parse().ok()?;
            let default = match uri.scheme_str()? {
                "http" => 80,
                "https" => 443,
                _ => return None,
            };
            let port = uri.port_u16().unwrap_or(default);
            let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
            if host == "localhost" {
                return Some(vec![
                    SocketAddr::from(([127, 0, 0, 1], port)),
                    SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port)),
                ]);
            }
            let ip: IpAddr = host.parse().ok()?;
            ip.is_loopback().then(|| vec![SocketAddr::new(ip, port)])
        }),
    }
}

struct Candidate {
    /// For a person.
    name: String,
    /// `None`: where the load goes is not known.
    listens: Option<Listens>,
}

#[derive(Debug, PartialEq)]
enum Choice {
    /// That one, and what is doubtful about it.
    Join(usize, Option<String>),
    /// Several of them may be it.
    Ambiguous(String),
    /// None of them is known to be it, and why.
    Nobody(String),
}

fn choose(candidates: &[Candidate], place: Option<&SocketAddr>, by_name: bool) -> Choice {
    let in_words = |of: &[usize]| {
        let words: Vec<_> = of.iter().map(|at| candidates[*at].name.as_str()).collect();
        words.join(", ")
    };
    let with = |wanted: &dyn Fn(Option<&Listens>) -> bool| -> Vec<usize> {
        let all = 0..candidates.len();
        all.filter(|at| wanted(candidates[*at].listens.as_ref()))
            .collect()
    };
    let all = with(&|_| true);
    let listening = with(&|listens| listens == Some(&Listens::Yes));
    let ambiguous = |of: &[usize]| {
        Choice::Ambiguous(format!(
            "several services are connected, say which one is loaded with --service NAME or PID: {}",
            in_words(of)
        ))
    };
    match (&listening[..], &all[..], place) {
        ([one], ..) | ([], [one], None) => Choice::Join(*one, None),
        ([_, _, ..], ..) => ambiguous(&listening),
        ([], _, None) => ambiguous(&all),
        ([], [one], Some(place)) if by_name => {
            let elsewhere = candidates[*one].listens == Some(Listens::No);
            let doubt = elsewhere.then(|| {
                format!(
                    "{} does not listen at {place} itself: what is said of it is the load's doing only if the load reaches it",
                    in_words(&all)
                )
            });
            Choice::Join(*one, doubt)
        }
        ([], _, Some(_)) if by_name => ambiguous(&all),
        ([], _, Some(place)) => {
            let unknown = candidates
                .iter()
                .find_map(|candidate| match &candidate.listens {
                    Some(Listens::Unknown(why)) => Some((&candidate.name, why)),
                    _ => None,
                });
            Choice::Nobody(match unknown {
                Some((name, why)) => {
                    format!("whether {name} listens at {place} cannot be known ({why})")
                }
                None => format!(
                    "none of the connected services listens at {place} (there are: {})",
                    in_words(&all)
                ),
            })
        }
    }
}

fn has_lane(view: &ServiceView, wanted: Option<&str>) -> Result<(), Failure> {
    let Some(wanted) = wanted else { return Ok(()) };
    let names: Vec<_> = view
        .lanes
        .iter()
        .map(|lane| printable(&lane.name))
        .collect();
    if view.lanes.iter().any(|lane| lane.name == wanted) {
        return Ok(());
    }
    let there = if names.is_empty() {
        "it has none".to_owned()
    } else {
        format!("there are: {}", names.join(", "))
    };
    Err(Failure::Usage(format!(
        "{} has no lane `{}`; {there}",
        printable(&view.summary.service),
        printable(wanted)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn candidates(listens: &[Listens]) -> Vec<Candidate> {
        let named = listens.iter().zip(["one (pid 1)", "two (pid 2)"]);
        named
            .map(|(listens, name)| Candidate {
                name: name.to_owned(),
                listens: Some(listens.clone()),
            })
            .collect()
    }

    /// A URL of a program without a probe must never be judged by the figures of another service.
    #[test]
    fn who_listens_is_joined_and_nobody_else() {
        let place = SocketAddr::from(([127, 0, 0, 1], 8080));
        let choose = |listens: &[Listens], named| choose(&candidates(listens), Some(&place), named);
        let unknown = Listens::Unknown("no rights".to_owned());
        assert_eq!(
            choose(&[Listens::No, Listens::Yes], false),
            Choice::Join(1, None)
        );
        assert_eq!(choose(&[Listens::Yes], false), Choice::Join(0, None));
        assert!(matches!(
            choose(&[Listens::Yes, Listens::Yes], true),
            Choice::Ambiguous(_)
        ));
        assert!(matches!(choose(&[Listens::No], false), Choice::Nobody(why)
            if why.contains("none of the connected services listens at 127.0.0.1:8080 (there are: one (pid 1))")));
        assert!(
            matches!(choose(std::slice::from_ref(&unknown), false), Choice::Nobody(why)
            if why.contains("cannot be known (no rights)"))
        );
        assert!(
            matches!(choose(&[Listens::No], true), Choice::Join(0, Some(doubt))
            if doubt.contains("does not listen"))
        );
        assert_eq!(choose(&[unknown], true), Choice::Join(0, None));
    }

    #[test]
    fn where_the_load_goes_is_not_always_known() {
        let nowhere = |count| {
            let mut candidates = candidates(&[Listens::No, Listens::No]);
            candidates.truncate(count);
            for candidate in &mut candidates {
                candidate.listens = None;
            }
            choose(&candidates, None, false)
        };
        assert_eq!(nowhere(1), Choice::Join(0, None));
        assert!(
            matches!(nowhere(2), Choice::Ambiguous(why) if why.contains("one (pid 1), two (pid 2)"))
        );
        let of = |line: &str| {
            let arguments = line.split(' ').map(str::to_owned).collect();
            addresses(&Source::Command(arguments)).map(|all| all[0].to_string())
        };
        assert_eq!(
            of("wrk -c1 http://127.0.0.1:8080/x?y=1").as_deref(),
            Some("127.0.0.1:8080")
        );
        assert_eq!(
            of("hey https://localhost/").as_deref(),
            Some("127.0.0.1:443")
        );
        assert_eq!(of("hey http://[::1]:9/").as_deref(), Some("[::1]:9"));
        assert_eq!(of("hey http://192.0.2.1:9/"), None);
        assert_eq!(of("redis-benchmark -p 6379"), None);
    }

    #[test]
    fn a_lane_that_is_not_there_is_refused_with_those_that_are() {
        let view = fixture::healthy();
        let name = view.lanes[0].name.clone();
        assert!(has_lane(&view, Some(&name)).is_ok() && has_lane(&view, None).is_ok());
        let said = has_lane(&view, Some("nope"))
            .expect_err("is not there")
            .to_string();
        assert!(
            said.contains("no lane `nope`") && said.contains(&name),
            "{said}"
        );
    }
}
