/* TCP: `tcpinfo_t` of headers, `tcpsinfo_t` of sockets, `tcplsinfo_t` of a state that was; the states. */

inline int TCP_STATE_IDLE = 0;
inline int TCP_STATE_ESTABLISHED = 1;
inline int TCP_STATE_SYN_SENT = 2;
inline int TCP_STATE_SYN_RECEIVED = 3;
inline int TCP_STATE_FIN_WAIT_1 = 4;
inline int TCP_STATE_FIN_WAIT_2 = 5;
inline int TCP_STATE_TIME_WAIT = 6;
inline int TCP_STATE_CLOSED = 7;
inline int TCP_STATE_CLOSE_WAIT = 8;
inline int TCP_STATE_LAST_ACK = 9;
inline int TCP_STATE_LISTEN = 10;
inline int TCP_STATE_CLOSING = 11;
inline int TCP_STATE_BOUND = 13;

inline uint8_t TH_FIN = 0x01;
inline uint8_t TH_SYN = 0x02;
inline uint8_t TH_RST = 0x04;
inline uint8_t TH_PUSH = 0x08;
inline uint8_t TH_ACK = 0x10;
inline uint8_t TH_URG = 0x20;
inline uint8_t TH_ECE = 0x40;
inline uint8_t TH_CWR = 0x80;
inline int TCP_MIN_HEADER_LENGTH = 20;

inline string tcp_state_string[int state] =
    state == 0 ? "state-idle" : state == 1 ? "state-established" : state == 2 ? "state-syn-sent"
    : state == 3 ? "state-syn-received" : state == 4 ? "state-fin-wait-1" : state == 5 ? "state-fin-wait-2"
    : state == 6 ? "state-time-wait" : state == 7 ? "state-closed" : state == 8 ? "state-close-wait"
    : state == 9 ? "state-last-ack" : state == 10 ? "state-listen" : state == 11 ? "state-closing"
    : state == 12 ? "state-syn-received" : state == 13 ? "state-bound" : "<unknown>";

typedef struct tcpinfo_t {
	uint16_t tcp_sport;
	uint16_t tcp_dport;
	uint32_t tcp_seq;
	uint32_t tcp_ack;
	uint8_t tcp_offset;
	uint8_t tcp_flags;
	uint16_t tcp_window;
	uint16_t tcp_checksum;
	uint16_t tcp_urgent;
	uintptr_t tcp_hdr;
} tcpinfo_t;

typedef struct tcpsinfo_t {
	uintptr_t tcps_addr;
	int tcps_local;
	int tcps_active;
	uint16_t tcps_lport;
	uint16_t tcps_rport;
	string tcps_laddr;
	string tcps_raddr;
	int tcps_state;
	uint32_t tcps_iss;
	uint32_t tcps_suna;
	uint32_t tcps_snxt;
	uint32_t tcps_rnxt;
	uint32_t tcps_swnd;
	int32_t tcps_snd_ws;
	uint32_t tcps_rwnd;
	int32_t tcps_rcv_ws;
	uint32_t tcps_cwnd;
	uint32_t tcps_cwnd_ssthresh;
	uint32_t tcps_sack_snxt;
	uint32_t tcps_rto;
	uint32_t tcps_mss;
	int tcps_retransmit;
	uint32_t tcps_rtt;
	uint32_t tcps_rtt_sd;
	uint32_t tcps_irs;
} tcpsinfo_t;

typedef struct tcplsinfo_t {
	int tcps_state;
} tcplsinfo_t;

translator tcpinfo_t < struct tcphdr *T > {
	tcp_sport = T != NULL ? ntohs(T->source) : 0;
	tcp_dport = T != NULL ? ntohs(T->dest) : 0;
	tcp_seq = T != NULL ? ntohl(T->seq) : 0;
	tcp_ack = T != NULL ? ntohl(T->ack_seq) : 0;
	/* Byte 12 has the header's length in words in its upper half, byte 13 the flags. */
	tcp_offset = T != NULL ? (((uint8_t *)T)[12] & 0xf0) >> 2 : 0;
	tcp_flags = T != NULL ? ((uint8_t *)T)[13] : 0;
	tcp_window = T != NULL ? ntohs(T->window) : 0;
	tcp_checksum = T != NULL ? ntohs(T->check) : 0;
	tcp_urgent = T != NULL ? ntohs(T->urg_ptr) : 0;
	tcp_hdr = (uintptr_t)T;
};

translator tcpsinfo_t < struct sock *S > {
	tcps_addr = (uintptr_t)S;
	tcps_local = S == NULL ? 0
	    : S->__sk_common.skc_family == 2 ? S->__sk_common.skc_rcv_saddr == S->__sk_common.skc_daddr
	    : S->__sk_common.skc_family == 10
	    ? ((uint64_t *)&S->__sk_common.skc_v6_rcv_saddr)[0] == ((uint64_t *)&S->__sk_common.skc_v6_daddr)[0]
	    && ((uint64_t *)&S->__sk_common.skc_v6_rcv_saddr)[1] == ((uint64_t *)&S->__sk_common.skc_v6_daddr)[1] : 0;
	tcps_lport = S != NULL ? S->__sk_common.skc_num : 0;
	tcps_rport = S != NULL ? ntohs(S->__sk_common.skc_dport) : 0;
	tcps_laddr = S == NULL ? "<unknown>"
	    : S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_rcv_saddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_rcv_saddr) : "<unknown>";
	tcps_raddr = S == NULL ? "<unknown>"
	    : S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_daddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_daddr) : "<unknown>";
	tcps_state = S != NULL ? S->__sk_common.skc_state : 0;
	/* What was acknowledged and received since the start counts from the first sequence numbers. */
	tcps_iss = S != NULL ? ((struct tcp_sock *)S)->snd_una - (uint32_t)((struct tcp_sock *)S)->bytes_acked : 0;
	tcps_suna = S != NULL ? ((struct tcp_sock *)S)->snd_una : 0;
	tcps_snxt = S != NULL ? ((struct tcp_sock *)S)->snd_nxt : 0;
	tcps_rnxt = S != NULL ? ((struct tcp_sock *)S)->rcv_nxt : 0;
	tcps_swnd = S != NULL ? ((struct tcp_sock *)S)->snd_wnd : 0;
	tcps_snd_ws = S != NULL ? ((struct tcp_sock *)S)->rx_opt.snd_wscale : 0;
	tcps_rwnd = S != NULL ? ((struct tcp_sock *)S)->rcv_wnd : 0;
	tcps_rcv_ws = S != NULL ? ((struct tcp_sock *)S)->rx_opt.rcv_wscale : 0;
	tcps_cwnd = S != NULL ? ((struct tcp_sock *)S)->snd_cwnd : 0;
	tcps_cwnd_ssthresh = S != NULL ? ((struct tcp_sock *)S)->snd_ssthresh : 0;
	tcps_sack_snxt = S == NULL ? 0 : ((struct tcp_sock *)S)->sacked_out == 0 ? ((struct tcp_sock *)S)->snd_una
	    : ((struct tcp_sock *)S)->snd_nxt;
	tcps_rto = S != NULL ? ((struct inet_connection_sock *)S)->icsk_rto : 0;
	tcps_mss = S != NULL ? ((struct tcp_sock *)S)->mss_cache : 0;
	tcps_rtt = S != NULL ? (((struct tcp_sock *)S)->srtt_us >> 3) / 1000 : 0;
	tcps_rtt_sd = S != NULL ? (((struct tcp_sock *)S)->mdev_us >> 2) / 1000 : 0;
	tcps_irs = S == NULL ? 0 : ((struct tcp_sock *)S)->bytes_received > 0
	    ? ((struct tcp_sock *)S)->rcv_nxt - (uint32_t)((struct tcp_sock *)S)->bytes_received : 0;
};

translator tcplsinfo_t < int I > {
	tcps_state = I;
};
