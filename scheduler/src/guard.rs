//! Running the user's code where its panics must not pass.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `user_code`; a panic comes back as its message.
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> Result<R, Box<str>> {
    // What a panic may leave half done is the user's own, and is dropped without another look at it.
    catch_unwind(AssertUnwindSafe(user_code)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> Box<str> {
    let text = if let Some(text) = payload.downcast_ref::<&str>() {
        Box::from(*text)
    } else if let Some(text) = payload.downcast_ref::<String>() {
        Box::from(text.as_str())
    } else {
        Box::from("no message: the panic's payload is not text")
    };
    // A payload may have a destructor that panics too; what that one throws is leaked, since it would go on for ever.
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic_any(Self);
        }
    }

    #[test]
    fn messages_are_kept_and_payloads_cannot_escape() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch(|| panic!("plain")), Err::<(), _>("plain".into()));
        let number = 7;
        assert_eq!(catch(|| panic!("no {number}")), Err::<(), _>("no 7".into()));
        let odd = catch(|| panic_any(PanicsOnDrop)).expect_err("it panicked");
        assert!(odd.starts_with("no message"), "{odd}");
    }
}
