/* UDP: `udpinfo_t` of headers, `udpsinfo_t` of sockets. */

typedef struct udpinfo_t {
	uint16_t udp_sport;
	uint16_t udp_dport;
	uint16_t udp_length;
	uint16_t udp_checksum;
	struct udphdr *udp_hdr;
} udpinfo_t;

typedef struct udpsinfo_t {
	uintptr_t udps_addr;
	uint16_t udps_lport;
	uint16_t udps_rport;
	string udps_laddr;
	string udps_raddr;
} udpsinfo_t;

translator udpinfo_t < struct udphdr *U > {
	udp_sport = U != NULL ? ntohs(U->source) : 0;
	udp_dport = U != NULL ? ntohs(U->dest) : 0;
	udp_length = U != NULL ? ntohs(U->len) : 0;
	udp_checksum = U != NULL ? ntohs(U->check) : 0;
	udp_hdr = U;
};

translator udpsinfo_t < struct sock *S > {
	udps_addr = (uintptr_t)S;
	udps_lport = S != NULL ? S->__sk_common.skc_num : 0;
	udps_rport = S != NULL ? ntohs(S->__sk_common.skc_dport) : 0;
	udps_laddr = S == NULL ? "<unknown>"
	    : S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_rcv_saddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_rcv_saddr) : "<unknown>";
	udps_raddr = S == NULL ? "<unknown>"
	    : S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_daddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_daddr) : "<unknown>";
};
