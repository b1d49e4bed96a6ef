//! What the fences of the other controllers say about the store, and what this one says to them.
//!
//! A question and its answer are one datagram each, on the port number of slurmctld. An answer says how long ago the
//! last durable write was, and which sign of life of slurmctld was seen last. Names are looked up and answers awaited
//! in threads of their own: nothing here holds the fence.

use super::watch::say;
use crate::heartbeat::Heartbeat;
use crate::machine::{Host, Machine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Where fences listen. slurmctld has the same number for TCP.
pub const PORT: u16 = 6817;

/// How long an answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_millis(700);
/// How long the look-up of a name may take.
const FOUND_WITHIN: Duration = Duration::from_secs(1);
/// So many questions in a row without an answer, and the name is looked up again.
const LOOK_UP_AGAIN: u32 = 10;
/// When to try again to listen.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);
/// Longer than any message.
const LONGEST: usize = 1024;

/// What another fence said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// When it was asked, by the clock of this fence.
    pub asked: Duration,
    /// How old its last durable write was then.
    pub age: Duration,
    /// The last sign of life of the controller that serves, as it saw it.
    pub heartbeat: Option<Heartbeat>,
}

/// The fences of the other controllers.
pub trait Others: fmt::Debug {
    /// Says what they are told when they ask.
    fn tell(&mut self, own: Own);
    /// Asks those of some hosts, and does not wait for the answers.
    fn ask(&mut self, cluster: &str, hosts: &[String]);
    /// Returns the last answer of a host.
    fn heard(&self, host: &str) -> Option<Heard>;
}

/// Nobody: they never answer.
#[derive(Debug)]
pub struct Nobody;

impl Others for Nobody {
    fn tell(&mut self, _: Own) {}
    fn ask(&mut self, _: &str, _: &[String]) {}
    fn heard(&self, _: &str) -> Option<Heard> {
        None
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Question {
    cluster: String,
    /// Comes back in the answer, so that nobody can answer who did not see the question.
    number: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    number: u64,
    age_ms: u64,
    #[serde(default)]
    heartbeat: Option<Heartbeat>,
}

/// What a fence tells others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    pub cluster: String,
    /// When its last durable write was.
    pub last_write: Duration,
    /// The last sign of life of the controller that serves.
    pub heartbeat: Option<Heartbeat>,
}

type Told = Arc<Mutex<Option<Own>>>;
type Clock = fn() -> Duration;

/// The fences of the other controllers, on the network.
#[derive(Debug)]
pub struct Network {
    own: Told,
    questions: Sender<(String, Vec<String>)>,
    heard: Arc<Mutex<BTreeMap<String, Heard>>>,
}

impl Network {
    /// Begins to listen and to ask, on a port.
    pub fn start(machine: &Machine, port: u16, clock: Clock) -> Self {
        let (questions, asked) = channel();
        let network = Self { own: Told::default(), questions, heard: Arc::default() };
        let own = Arc::clone(&network.own);
        thread::spawn(move || listen(port, &own, clock));
        let asker = Asker { host: machine.host(), port, clock, known: BTreeMap::new() };
        let heard = Arc::clone(&network.heard);
        thread::spawn(move || asker.serve(&asked, &heard));
        network
    }
}

impl Others for Network {
    fn tell(&mut self, own: Own) {
        *lock(&self.own) = Some(own);
    }

    fn ask(&mut self, cluster: &str, hosts: &[String]) {
        // The thread lives as long as this does.
        let _ = self.questions.send((cluster.to_owned(), hosts.to_vec()));
    }

    fn heard(&self, host: &str) -> Option<Heard> {
        lock(&self.heard).get(host).copied()
    }
}

/// What a thread that panicked has left is whole: each write is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers questions, for ever.
fn listen(port: u16, own: &Told, clock: Clock) {
    loop {
        let bound = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port));
        let error = match bound.or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))) {
            Ok(socket) => answer(&socket, own, clock),
            Err(error) => error,
        };
        say(&format!("other controllers cannot ask this one: {error}"));
        thread::sleep(LISTEN_AGAIN);
    }
}

/// Answers questions until the socket fails.
fn answer(socket: &UdpSocket, own: &Told, clock: Clock) -> io::Error {
    let mut message = [0; LONGEST];
    loop {
        let (length, from) = match socket.recv_from(&mut message) {
            Ok(received) => received,
            // Somebody asked and did not wait for the answer.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return error,
        };
        let Ok(question) = serde_json::from_slice::<Question>(&message[..length]) else { continue };
        let own = lock(own).clone().filter(|own| own.cluster == question.cluster);
        let Some(Own { last_write, heartbeat, .. }) = own else { continue };
        let age_ms = u64::try_from(clock().saturating_sub(last_write).as_millis()).unwrap_or(u64::MAX);
        let answer = Answer { number: question.number, age_ms, heartbeat };
        // An answer that is lost is asked for again.
        let _ = socket.send_to(&render(&answer), from);
    }
}

fn render(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).expect("invariant: texts and numbers have a JSON form")
}

/// Asks the fences of other hosts.
struct Asker {
    host: Host,
    port: u16,
    clock: Clock,
    known: BTreeMap<String, Known>,
}

/// Where a host is.
#[derive(Default)]
struct Known {
    addresses: Vec<IpAddr>,
    /// Questions without an answer.
    missed: u32,
}

impl Asker {
    /// Asks whenever it is told to. What it was told while it waited for answers counts once.
    fn serve(mut self, asked: &Receiver<(String, Vec<String>)>, heard: &Mutex<BTreeMap<String, Heard>>) {
        while let Ok(question) = asked.recv() {
            let (cluster, hosts) = asked.try_iter().last().unwrap_or(question);
            for (host, answer) in self.ask(&cluster, &hosts) {
                lock(heard).insert(host, answer);
            }
        }
    }

    fn ask(&mut self, cluster: &str, hosts: &[String]) -> BTreeMap<String, Heard> {
        self.known.retain(|host, _| hosts.contains(host));
        for host in hosts {
            self.look_up(host);
        }
        let mut number = [0; 8];
        if getrandom::fill(&mut number).is_err() {
            return BTreeMap::new();
        }
        let question = Question { cluster: cluster.to_owned(), number: u64::from_le_bytes(number) };
        let (message, asked, end) = (render(&question), (self.clock)(), Instant::now() + ANSWERS_WITHIN);
        let mut waiting = Vec::new();
        for (host, known) in &self.known {
            let sent = known.addresses.iter().filter_map(|address| send(*address, self.port, &message).ok());
            waiting.extend(sent.map(|socket| (host.clone(), socket)));
        }
        let mut heard = BTreeMap::new();
        for (host, socket) in waiting {
            if let Some(Answer { age_ms, heartbeat, .. }) = receive(&socket, question.number, end) {
                heard.insert(host, Heard { asked, age: Duration::from_millis(age_ms), heartbeat });
            }
        }
        for (host, known) in &mut self.known {
            known.missed = if heard.contains_key(host) { 0 } else { known.missed.saturating_add(1) };
        }
        heard
    }

    /// Finds the addresses of a host, unless they are known. Addresses of before are better than none.
    fn look_up(&mut self, name: &str) {
        let known = self.known.entry(name.to_owned()).or_default();
        if !known.addresses.is_empty() && known.missed % LOOK_UP_AGAIN != LOOK_UP_AGAIN - 1 {
            return;
        }
        let found = self.host.command("getent").args(["ahosts", name]).deadline(FOUND_WITHIN).output();
        let found = found.map(|output| addresses(&output.stdout)).unwrap_or_default();
        if !found.is_empty() {
            known.addresses = found;
        }
    }
}

/// Reads what `getent ahosts` prints: an address and its kind in each line, each address several times.
fn addresses(text: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for address in text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// Sends a message, and returns the socket that takes the answer from there alone.
fn send(address: IpAddr, port: u16, message: &[u8]) -> io::Result<UdpSocket> {
    let own: SocketAddr = match address {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(own)?;
    socket.connect((address, port))?;
    socket.send(message)?;
    Ok(socket)
}

/// Waits for the answer to a question until `end`. What is there already is taken also after that.
fn receive(socket: &UdpSocket, number: u64, end: Instant) -> Option<Answer> {
    let mut message = [0; LONGEST];
    loop {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).ok()?;
        let length = socket.recv(&mut message).ok()?;
        match serde_json::from_slice::<Answer>(&message[..length]) {
            Ok(answer) if answer.number == number => return Some(answer),
            _ if Instant::now() >= end => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Duration {
        Duration::from_secs(1000)
    }

    #[test]
    fn addresses_are_taken_once_each() {
        let text = "10.0.0.7       STREAM c2\n10.0.0.7       DGRAM\nfd42::7  STREAM\nnone\n\n";
        assert_eq!(addresses(text), ["10.0.0.7".parse::<IpAddr>().unwrap(), "fd42::7".parse().unwrap()]);
    }

    /// A fence that answers, and one that asks it, on this machine.
    #[test]
    fn a_fence_answers_those_of_its_own_cluster() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = Told::default();
        let listening = Arc::clone(&own);
        thread::spawn(move || answer(&socket, &listening, clock));
        let machine = Machine::new();
        let mut asker = Asker { host: machine.host(), port, clock, known: BTreeMap::new() };
        let known = Known { addresses: vec![Ipv4Addr::LOCALHOST.into()], missed: 0 };
        asker.known.insert("c2".to_owned(), known);
        let hosts = ["c2".to_owned()];
        assert_eq!(asker.ask("lab", &hosts), BTreeMap::new(), "it knows nothing yet");
        let heartbeat = Some(Heartbeat { at: 77, controller: 1 });
        *lock(&own) = Some(Own { cluster: "lab".to_owned(), last_write: Duration::from_secs(990), heartbeat });
        let heard = Heard { asked: clock(), age: Duration::from_secs(10), heartbeat };
        assert_eq!(asker.ask("lab", &hosts), BTreeMap::from([("c2".to_owned(), heard)]));
        assert_eq!(asker.known["c2"].missed, 0);
        assert_eq!(asker.ask("other", &hosts), BTreeMap::new());
        assert_eq!(asker.known["c2"].missed, 1);
    }

    #[test]
    fn what_is_no_question_is_passed_over() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = Own { cluster: "lab".to_owned(), last_write: Duration::from_secs(999), heartbeat: None };
        let own: Told = Arc::new(Mutex::new(Some(own)));
        thread::spawn(move || answer(&socket, &own, clock));
        for noise in [&b""[..], b"\xff\xff", b"{}", b"{\"cluster\":1}", &[b' '; 2000]] {
            send(Ipv4Addr::LOCALHOST.into(), port, noise).unwrap();
        }
        let question = render(&Question { cluster: "lab".to_owned(), number: 7 });
        let asked = send(Ipv4Addr::LOCALHOST.into(), port, &question).unwrap();
        let end = Instant::now() + Duration::from_secs(10);
        assert_eq!(receive(&asked, 7, end).map(|answer| answer.age_ms), Some(1000));
        // An answer to another question is none.
        let asked = send(Ipv4Addr::LOCALHOST.into(), port, &question).unwrap();
        assert!(receive(&asked, 8, Instant::now() + Duration::from_millis(50)).is_none());
    }
}
