//! Requests of the operator to a compute unit. There are none yet; whatever is asked for is refused by name.

use charm::{ActionFailure, ActionName, ActionResults};

/// Answers an action.
pub fn act(action: &ActionName) -> Result<ActionResults, ActionFailure> {
    Err(ActionFailure::refused(format!("this charm has no action {}", action.as_str())))
}
