//! Work that waits for processes, side by side. What it logs belongs to the dispatch that it is done for.

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

/// Does the same with each item, the last one in this thread and the others in one of their own.
pub fn each<I: Send, A: Send>(items: impl IntoIterator<Item = I>, work: impl Fn(I) -> A + Sync) -> Vec<A> {
    let mut items: Vec<I> = items.into_iter().collect();
    let Some(last) = items.pop() else { return Vec::new() };
    let log = tracing::dispatcher::get_default(Clone::clone);
    std::thread::scope(|scope| {
        let (log, work) = (&log, &work);
        let there = |item| scope.spawn(move || tracing::dispatcher::with_default(log, || work(item)));
        let others: Vec<_> = items.into_iter().map(there).collect();
        let last = work(last);
        others.into_iter().map(ended).chain([last]).collect()
    })
}

fn ended<A>(thread: ScopedJoinHandle<'_, A>) -> A {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
