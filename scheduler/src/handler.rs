//! Handlers: the code of a job type, registered under its name, so that a job of it is data (a name and a payload).

use std::{
    collections::HashMap, error::Error, future::Future, marker::PhantomData, pin::Pin, sync::Arc,
};

use parking_lot::RwLock;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{JobBuilder, JobContext, backoff::Retry, body::Body, error::DuplicateHandler};

type BoxError = Box<dyn Error + Send + Sync>;
type HandlerFuture = Pin<Box<dyn Future<Output = Result<Value, BoxError>> + Send>>;

/// A handler whose payload and result are hidden.
pub(crate) trait Handler: Send + Sync {
    fn call(&self, cx: JobContext, payload: &Value) -> HandlerFuture;
}

struct Typed<F, P> {
    function: F,
    payload: PhantomData<fn(P)>,
}

impl<F, P, Fut, T, E> Handler for Typed<F, P>
where
    F: Fn(JobContext, P) -> Fut + Send + Sync,
    P: DeserializeOwned,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    T: Serialize,
    E: Into<BoxError>,
{
    fn call(&self, cx: JobContext, payload: &Value) -> HandlerFuture {
        let payload = match P::deserialize(payload) {
            Ok(payload) => payload,
            Err(error) => return Box::pin(async { Err(error.into()) }),
        };
        let result = (self.function)(cx.clone(), payload);
        Box::pin(async move {
            let output = result.await.map_err(Into::into)?;
            let output = serde_json::to_value(output)?;
            cx.keep_output(Arc::new(output.clone()));
            Ok(output)
        })
    }
}

/// A job of a registered handler.
#[derive(Clone)]
pub struct HandlerBody {
    handler: Arc<dyn Handler>,
    payload: Arc<Value>,
}

impl Body for HandlerBody {
    type Future = HandlerFuture;
    type Value = Value;
    type Error = BoxError;
    const TAKES_LANE_RETRY: bool = true;

    fn begin(body: &mut Option<Self>, cx: JobContext) -> Option<HandlerFuture> {
        let body = body.as_ref()?;
        Some(body.handler.call(cx, &body.payload))
    }
}

impl JobBuilder<'_, HandlerBody> {
    /// Tries it again when it fails: as the lane says ([`LaneBuilder::retry`](crate::LaneBuilder::retry)) unless set.
    pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
        self.extras().plan.retry = Some(retry.into());
        self
    }

    /// Lets its lane stop it for a job of a higher priority, as a closure that is
    /// [`Clone`](JobBuilder::preemptible).
    pub fn preemptible(mut self) -> Self {
        self.extras().plan.preemptible = true;
        self
    }
}

/// The handlers of a scheduler.
#[derive(Default)]
pub(crate) struct Handlers {
    // Written at start-up, read by each submit of a payload.
    by_name: RwLock<HashMap<Box<str>, Arc<dyn Handler>>>,
}

impl Handlers {
    pub(crate) fn add<F, P, Fut, T, E>(
        &self,
        name: &str,
        function: F,
    ) -> Result<(), DuplicateHandler>
    where
        F: Fn(JobContext, P) -> Fut + Send + Sync + 'static,
        P: DeserializeOwned + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Serialize + 'static,
        E: Into<BoxError> + 'static,
    {
        let mut by_name = self.by_name.write();
        if by_name.contains_key(name) {
            let name = Box::from(name);
            return Err(DuplicateHandler { name });
        }
        let handler = Typed {
            function,
            payload: PhantomData,
        };
        by_name.insert(Box::from(name), Arc::new(handler));
        Ok(())
    }

    pub(crate) fn body(&self, name: &str, payload: Value) -> Option<HandlerBody> {
        let handler = self.by_name.read().get(name).cloned()?;
        Some(HandlerBody {
            handler,
            payload: Arc::new(payload),
        })
    }
}
