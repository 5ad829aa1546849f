//! `tcp:::NAME`: the life of connections, from the changes of their sockets' states; and `udp:::NAME`: datagrams as processes send
//! and receive them.
//!
//! No tracepoint shows single segments; that needs probes on functions.

use crate::derived::{Cond, Derived, DerivedProbe, Source, Typed, Value, plain, translated};

const TCP_PROTOCOL: i64 = 6;
const UDP_PROTOCOL: i64 = 17;
const ECONNREFUSED: i64 = 111;
/// States of the kernel's `enum`, which are part of its interface.
const ESTABLISHED: i64 = 1;
const SYN_SENT: i64 = 2;
const SYN_RECV: i64 = 3;
const CLOSE: i64 = 7;

const SOCKET: &str = "struct sock *";
const PROTOCOL: Value = Value::Member(&Value::Arg(0), "sock", "sk_protocol");
const IS_TCP: Cond = Cond::Is(PROTOCOL, TCP_PROTOCOL);
const IS_UDP: Cond = Cond::Is(PROTOCOL, UDP_PROTOCOL);
const REFUSED: Cond = Cond::Is(Value::Member(&Value::Arg(0), "sock", "sk_err"), ECONNREFUSED);

/// `inet_sock_set_state(sk, old, new)`
const STATES: &[Source] = &[Source::Tracepoint("inet_sock_set_state")];
const SEGMENTS: &[Source] =
    &[Source::Nowhere("no tracepoint shows TCP segments: it takes a probe on a kernel function")];
const NO_PACKET: Value = Value::Unknown("the event is about a socket: there is no packet");
const CHANGE: &[Typed] = &[
    translated(NO_PACKET, "struct sk_buff *", "pktinfo_t *"),
    translated(Value::Arg(0), SOCKET, "csinfo_t *"),
    translated(Value::Arg(0), SOCKET, "ipinfo_t *"),
    translated(Value::Arg(0), SOCKET, "tcpsinfo_t *"),
    translated(NO_PACKET, "struct tcphdr *", "tcpinfo_t *"),
    translated(Value::Arg(1), "int", "tcplsinfo_t *"),
];
const CHANGE_RAW: &[Value] = &[NO_PACKET, Value::Arg(0), Value::Arg(0), Value::Arg(0), NO_PACKET, Value::Arg(1)];

const fn from_to(old: i64, new: i64) -> (Cond, Cond) {
    (Cond::Is(Value::Arg(1), old), Cond::Is(Value::Arg(2), new))
}

const ACCEPTED: (Cond, Cond) = from_to(SYN_RECV, ESTABLISHED);
const CONNECTED: (Cond, Cond) = from_to(SYN_SENT, ESTABLISHED);
const GAVE_UP: (Cond, Cond) = from_to(SYN_SENT, CLOSE);

const fn probe(name: &'static str, from: &'static [Source], when: Cond) -> DerivedProbe {
    DerivedProbe { name, from, when: Some(when), raw: CHANGE_RAW, args: CHANGE }
}

/// The provider `tcp`.
pub(crate) static TCP: Derived = Derived {
    name: "tcp",
    first_id: 10_300,
    probes: &[
        probe("accept-established", STATES, Cond::All(&[ACCEPTED.0, ACCEPTED.1, IS_TCP])),
        probe("accept-refused", SEGMENTS, IS_TCP),
        probe("connect-established", STATES, Cond::All(&[CONNECTED.0, CONNECTED.1, IS_TCP])),
        probe("connect-refused", STATES, Cond::All(&[GAVE_UP.0, GAVE_UP.1, IS_TCP, REFUSED])),
        probe("connect-request", STATES, Cond::All(&[Cond::Is(Value::Arg(2), SYN_SENT), IS_TCP])),
        probe("receive", SEGMENTS, IS_TCP),
        probe("send", SEGMENTS, IS_TCP),
        probe("state-change", STATES, IS_TCP),
    ],
};

/// `sock_send_length(sk, ret, flags)` and its like: one call of a process, one datagram.
const DATAGRAM: &[Typed] = &[
    translated(NO_PACKET, "struct sk_buff *", "pktinfo_t *"),
    translated(Value::Arg(0), SOCKET, "csinfo_t *"),
    translated(Value::Arg(0), SOCKET, "ipinfo_t *"),
    translated(Value::Arg(0), SOCKET, "udpsinfo_t *"),
    translated(NO_PACKET, "struct udphdr *", "udpinfo_t *"),
    plain(Value::Arg(1), "int"),
];
const DATAGRAM_RAW: &[Value] = &[NO_PACKET, Value::Arg(0), Value::Arg(0), Value::Arg(0), NO_PACKET, Value::Arg(1)];

const fn datagram(name: &'static str, from: &'static [Source]) -> DerivedProbe {
    let when = Some(Cond::All(&[Cond::Within(Value::Arg(1), 0, i64::MAX), IS_UDP]));
    DerivedProbe { name, from, when, raw: DATAGRAM_RAW, args: DATAGRAM }
}

/// The provider `udp`.
pub(crate) static UDP: Derived = Derived {
    name: "udp",
    first_id: 10_400,
    probes: &[
        datagram("receive", &[Source::Tracepoint("sock_recv_length")]),
        datagram("send", &[Source::Tracepoint("sock_send_length")]),
    ],
};
