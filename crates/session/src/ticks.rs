//! The consumer's own timers: `tick-n` runs on a thread of its own, so that neither an idle machine nor a flood of output
//! delays it.

use probity_kernel::{Error, Event, Poller, clock};
use probity_providers::Timer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Most runs that are made up for when the thread was late; what exceeds it is counted as missed.
const CATCH_UP: u64 = 64;
/// The stop event's token; timers have their index.
const STOP: u64 = u64::MAX;

/// The running timers; dropping it stops them.
pub struct Ticks {
    stop: Arc<Event>,
    missed: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Ticks {
    /// Starts timers on a thread; `None` if there are none.
    pub fn start(timers: Vec<Timer>, cpu: Option<u32>) -> Result<Option<Ticks>, Error> {
        if timers.is_empty() {
            return Ok(None);
        }
        let poller = Poller::new()?;
        let stop = Arc::new(Event::new()?);
        poller.add(&*stop, STOP)?;
        let mut running = Vec::new();
        for (i, timer) in timers.into_iter().enumerate() {
            let clock = clock::Timer::every(std::time::Duration::from_nanos(timer.period))?;
            poller.add(&clock, i as u64)?;
            running.push((clock, timer));
        }
        let missed = Arc::new(AtomicU64::new(0));
        let count = missed.clone();
        let thread = std::thread::Builder::new()
            .name("tick".into())
            .spawn(move || serve(&poller, &running, &count, cpu))
            .map_err(|e| Error::io(e, "cannot start the thread that serves timers"))?;
        Ok(Some(Ticks { stop, missed, thread: Some(thread) }))
    }

    /// Stops the timers; how many firings were not made up for.
    pub fn stop(self) -> u64 {
        let missed = self.missed.clone();
        // Dropping waits for the thread.
        drop(self);
        missed.load(Ordering::Relaxed)
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the runtime already.
            let _ = thread.join();
        }
    }
}

fn serve(poller: &Poller, running: &[(clock::Timer, Timer)], missed: &AtomicU64, cpu: Option<u32>) {
    let mut ready = Vec::new();
    while poller.wait(None, &mut ready).is_ok() {
        for &token in &ready {
            let Some((clock, timer)) = running.get(token as usize) else { return };
            let due = clock.take();
            for _ in 0..due.min(CATCH_UP) {
                if timer.prog.test_run(&[u64::from(timer.index)], cpu).is_err() {
                    missed.fetch_add(1, Ordering::Relaxed);
                }
            }
            missed.fetch_add(due.saturating_sub(CATCH_UP), Ordering::Relaxed);
        }
    }
}
