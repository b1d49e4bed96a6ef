//! The retry timer of a unit: while a charm waits for what may come without an event of Juju, a timer of systemd calls
//! it through `juju-exec`, at first after seconds, later once a minute.

use crate::{Error, Hands, View};
use charm::Wake;
use slurm_ops::timer::{self, Rhythm};

/// The event that the timer sends.
pub const EVENT: &str = "retry";

/// The event of the timer in earlier versions of the charms.
const OLD_EVENT: &str = "look-again";

const RHYTHM: Rhythm = Rhythm { first: &Wake::FIRST, repeat: Wake::REPEAT, limit: Wake::PATIENCE };

/// Says whether the timer is set. Starts no process.
pub fn is_set(view: &View) -> bool {
    timer::is_set(&view.host, &Wake::new(&view.ctx.unit, EVENT).name)
}

/// Sets the timer, or ends it.
pub fn set(hands: &Hands, set: bool) -> Result<(), Error> {
    let wake = Wake::new(&hands.ctx.unit, EVENT);
    if set {
        timer::ensure_set(&hands.host, &wake.name, &wake.command, &RHYTHM)?;
    } else {
        timer::ensure_ended(&hands.host, &wake.name)?;
    }
    Ok(())
}

/// Sets the timer such that its pauses begin anew, for a request of the operator.
pub fn begin_anew(hands: &Hands) -> Result<(), Error> {
    let wake = Wake::new(&hands.ctx.unit, EVENT);
    timer::restart(&hands.host, &wake.name, &wake.command, &RHYTHM)?;
    Ok(())
}

/// Says whether an earlier version of the charm has left its timer.
pub fn old_is_set(view: &View) -> bool {
    timer::is_set(&view.host, &Wake::new(&view.ctx.unit, OLD_EVENT).name)
}

/// Ends the timer of an earlier version of the charm.
pub fn end_old(hands: &Hands) -> Result<(), Error> {
    timer::ensure_ended(&hands.host, &Wake::new(&hands.ctx.unit, OLD_EVENT).name)?;
    Ok(())
}
