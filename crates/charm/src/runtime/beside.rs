//! Work that waits for processes, side by side. What it logs belongs to the dispatch that it is done for.

use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// Does one thing in a thread of its own and another meanwhile in this one.
pub fn both<A: Send, B>(there: impl FnOnce() -> A + Send, here: impl FnOnce() -> B) -> (A, B) {
    let log = tracing::dispatcher::get_default(Clone::clone);
    std::thread::scope(|scope| {
        let there = scope.spawn(|| tracing::dispatcher::with_default(&log, there));
        let here = here();
        (ended(there), here)
    })
}

/// More than the processors of most machines; those who wait for a process need none.
const THREADS: usize = 8;

/// Does the same with each item, begun in their order, in this thread and some more. Answers come in that order, too.
pub fn each<I: Send, A: Send>(items: impl IntoIterator<Item = I>, work: impl Fn(I) -> A + Sync) -> Vec<A> {
    let items: Vec<I> = items.into_iter().collect();
    let more = items.len().min(THREADS).saturating_sub(1);
    let left = Mutex::new(items.into_iter().enumerate());
    // A thread that panics does so outside of the lock.
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || std::iter::from_fn(next).map(|(place, item)| (place, work(item))).collect::<Vec<_>>();
    let log = tracing::dispatcher::get_default(Clone::clone);
    let mut answers = std::thread::scope(|scope| {
        let logged = || tracing::dispatcher::with_default(&log, some);
        let others: Vec<_> = (0..more).map(|_| scope.spawn(logged)).collect();
        let mut answers = some();
        answers.extend(others.into_iter().flat_map(ended));
        answers
    });
    answers.sort_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn ended<A>(thread: ScopedJoinHandle<'_, A>) -> A {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn those_who_wait_for_each_other_are_done_at_once_and_answer_in_order() {
        let all = Barrier::new(THREADS);
        let answers = each(0..THREADS, |item| {
            all.wait();
            item
        });
        assert_eq!(answers, (0..THREADS).collect::<Vec<_>>());
        assert_eq!(each(0..100, |item| item), (0..100).collect::<Vec<_>>());
        let two = Barrier::new(2);
        both(|| two.wait(), || two.wait());
    }
}
