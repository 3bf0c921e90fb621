//! The routes of a service: their names, bounded, and what they answered.

use std::{
    collections::HashMap,
    panic::Location,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use ax_wire::sample::{RouteSample, TaskKind};
use http::{Method, StatusCode};
use parking_lot::RwLock;

use crate::task_type::{OTHER, TaskType, task_type};

/// Most routes that are told apart. Beyond that they are counted together as `other`.
pub const MAX_ROUTES: usize = 64;

/// The name of requests that no route took: one, since strangers choose their paths.
const UNMATCHED: &str = "unmatched";

/// One route under one method.
pub(crate) struct Route {
    /// Counts and times its requests, and names their polls.
    pub(crate) task: &'static TaskType,
    successes: AtomicU64,
    redirections: AtomicU64,
    client_errors: AtomicU64,
    too_many_requests: AtomicU64,
    server_errors: AtomicU64,
}

impl Route {
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = match status.as_u16() {
            ..300 => &self.successes,
            300..400 => &self.redirections,
            400..500 => &self.client_errors,
            500.. => &self.server_errors,
        };
        class.fetch_add(1, Relaxed);
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.too_many_requests.fetch_add(1, Relaxed);
        }
    }

    fn sample(&self) -> RouteSample {
        RouteSample {
            name: self.task.name().to_owned(),
            successes_total: self.successes.load(Relaxed),
            redirections_total: self.redirections.load(Relaxed),
            client_errors_total: self.client_errors.load(Relaxed),
            too_many_requests_total: self.too_many_requests.load(Relaxed),
            server_errors_total: self.server_errors.load(Relaxed),
        }
    }
}

#[derive(Default)]
struct Registry {
    /// By path, then one for each method; with the empty path, the names without a path.
    by_path: HashMap<Box<str>, Vec<(Method, &'static Route)>>,
    all: Vec<&'static Route>,
}

impl Registry {
    fn find(&self, method: &Method, path: &str) -> Option<&'static Route> {
        let same_path = self.by_path.get(path)?;
        let found = same_path.iter().find(|(of, _)| of == method);
        found.map(|(_, route)| *route)
    }

    /// The route that has this name, made where there is none. Leaked, at most [`MAX_ROUTES`] and two.
    fn named(&mut self, name: &str, place: &'static Location<'static>) -> &'static Route {
        let task = task_type(TaskKind::Request, None, name, place);
        // Where the types are used up, several names share the type `other`, and are one route.
        let known = self
            .all
            .iter()
            .find(|route| route.task.name() == task.name());
        if let Some(known) = known {
            return known;
        }
        let route = Box::leak(Box::new(Route {
            task,
            successes: AtomicU64::new(0),
            redirections: AtomicU64::new(0),
            client_errors: AtomicU64::new(0),
            too_many_requests: AtomicU64::new(0),
            server_errors: AtomicU64::new(0),
        }));
        self.all.push(route);
        route
    }
}

// Like the registry of types: read on the way of every request, written at most `MAX_ROUTES` times.
static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();

fn registry() -> &'static RwLock<Registry> {
    REGISTRY.get_or_init(RwLock::default)
}

/// The route of this path and method. `None`: no route took the request.
pub(crate) fn find(
    method: &Method,
    path: Option<&str>,
    place: &'static Location<'static>,
) -> &'static Route {
    let (method, path) = match path {
        Some(path) if !path.is_empty() && is_standard(method) => (method, path),
        _ => (&Method::GET, ""),
    };
    if let Some(found) = registry().read().find(method, path) {
        return found;
    }
    let mut registry = registry().write();
    if let Some(found) = registry.find(method, path) {
        return found;
    }
    if path.is_empty() {
        let route = registry.named(UNMATCHED, place);
        let same_path = registry.by_path.entry(Box::from(path)).or_default();
        same_path.push((method.clone(), route));
        return route;
    }
    if registry.all.len() >= MAX_ROUTES {
        // Not remembered by its path: strangers' paths would fill the memory.
        return registry.named(OTHER, place);
    }
    let route = registry.named(&format!("{method} {path}"), place);
    let same_path = registry.by_path.entry(Box::from(path)).or_default();
    same_path.push((method.clone(), route));
    route
}

/// Strangers may invent methods too.
fn is_standard(method: &Method) -> bool {
    let standard = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
    ];
    standard.contains(method)
}

/// A sample of every route that was ever asked for.
pub(crate) fn sample_all() -> Vec<RouteSample> {
    let all = registry().read().all.clone();
    all.into_iter().map(Route::sample).collect()
}
