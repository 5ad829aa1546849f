/*
 * Packets of the Internet protocols: `pktinfo_t`, `csinfo_t`, `ipinfo_t`, `ifinfo_t`, `ipv4info_t`, `ipv6info_t`. Headers are in network
 * order and may be missing: what is asked of NULL is 0 or "<unknown>".
 */

typedef uint64_t netstackid_t;
typedef uint32_t ipaddr_t;
typedef struct in6_addr in6_addr_t;

typedef struct pktinfo_t {
	uintptr_t pkt_addr;
} pktinfo_t;

typedef struct csinfo_t {
	uintptr_t cs_addr;
	uint64_t cs_cid;
	pid_t cs_pid;
	zoneid_t cs_zoneid;
} csinfo_t;

typedef struct ipinfo_t {
	uint8_t ip_ver;
	uint32_t ip_plength;
	string ip_saddr;
	string ip_daddr;
} ipinfo_t;

typedef struct ifinfo_t {
	string if_name;
	int8_t if_local;
	netstackid_t if_ipstack;
	uintptr_t if_addr;
} ifinfo_t;

typedef struct ipv4info_t {
	uint8_t ipv4_ver;
	uint8_t ipv4_ihl;
	uint8_t ipv4_tos;
	uint16_t ipv4_length;
	uint16_t ipv4_ident;
	uint8_t ipv4_flags;
	uint16_t ipv4_offset;
	uint8_t ipv4_ttl;
	uint8_t ipv4_protocol;
	string ipv4_protostr;
	uint16_t ipv4_checksum;
	ipaddr_t ipv4_src;
	ipaddr_t ipv4_dst;
	string ipv4_saddr;
	string ipv4_daddr;
	struct iphdr *ipv4_hdr;
} ipv4info_t;

typedef struct ipv6info_t {
	uint8_t ipv6_ver;
	uint8_t ipv6_tclass;
	uint32_t ipv6_flow;
	uint16_t ipv6_plen;
	uint8_t ipv6_nexthdr;
	string ipv6_nextstr;
	uint8_t ipv6_hlim;
	in6_addr_t *ipv6_src;
	in6_addr_t *ipv6_dst;
	string ipv6_saddr;
	string ipv6_daddr;
	struct ipv6hdr *ipv6_hdr;
} ipv6info_t;

inline string _ip_protocol[int P] =
    P == 1 ? "ICMP" : P == 2 ? "IGMP" : P == 6 ? "TCP" : P == 17 ? "UDP" : P == 58 ? "ICMPV6" : P == 132 ? "SCTP"
    : P == 47 ? "GRE" : P == 50 ? "ESP" : P == 51 ? "AH" : P == 4 ? "IP" : P == 41 ? "IPV6" : lltostr(P);

/* The version is in the upper half of a header's first byte. */
inline int _ip_version[struct iphdr *I] = I != NULL ? *(uint8_t *)I >> 4 : 0;

translator pktinfo_t < struct sk_buff *S > {
	pkt_addr = (uintptr_t)S;
};

translator csinfo_t < struct sock *S > {
	cs_addr = (uintptr_t)S;
	cs_cid = (uint64_t)S;
};

translator ipinfo_t < struct iphdr *I > {
	ip_ver = _ip_version[I];
	ip_plength = _ip_version[I] == 4 ? ntohs(I->tot_len) - ((*(uint8_t *)I & 0xf) << 2)
	    : _ip_version[I] == 6 ? ntohs(((struct ipv6hdr *)I)->payload_len) : 0;
	ip_saddr = _ip_version[I] == 4 ? inet_ntoa(&I->saddr)
	    : _ip_version[I] == 6 ? inet_ntoa6(&((struct ipv6hdr *)I)->saddr) : "<unknown>";
	ip_daddr = _ip_version[I] == 4 ? inet_ntoa(&I->daddr)
	    : _ip_version[I] == 6 ? inet_ntoa6(&((struct ipv6hdr *)I)->daddr) : "<unknown>";
};

translator ipinfo_t < struct ipv6hdr *I > {
	ip_ver = _ip_version[(struct iphdr *)I];
	ip_plength = I != NULL ? ntohs(I->payload_len) : 0;
	ip_saddr = I != NULL ? inet_ntoa6(&I->saddr) : "<unknown>";
	ip_daddr = I != NULL ? inet_ntoa6(&I->daddr) : "<unknown>";
};

/* Of a socket the ends are known, not which of them sends: its own is the source. */
translator ipinfo_t < struct sock *S > {
	ip_ver = S->__sk_common.skc_family == 2 ? 4 : S->__sk_common.skc_family == 10 ? 6 : 0;
	ip_saddr = S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_rcv_saddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_rcv_saddr) : "<unknown>";
	ip_daddr = S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_daddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_daddr) : "<unknown>";
};

translator ifinfo_t < struct net_device *N > {
	if_name = N != NULL ? stringof(N->name) : "<unknown>";
	if_local = N == NULL;
	if_ipstack = N != NULL ? (uint64_t)N->nd_net.net : 0;
	if_addr = (uintptr_t)N;
};

translator ipv4info_t < struct iphdr *I > {
	ipv4_ver = _ip_version[I];
	ipv4_ihl = I != NULL ? (*(uint8_t *)I & 0xf) << 2 : 0;
	ipv4_tos = I != NULL ? I->tos : 0;
	ipv4_length = I != NULL ? ntohs(I->tot_len) : 0;
	ipv4_ident = I != NULL ? ntohs(I->id) : 0;
	ipv4_flags = I != NULL ? ntohs(I->frag_off) >> 12 : 0;
	ipv4_offset = I != NULL ? ntohs(I->frag_off) & 0x1fff : 0;
	ipv4_ttl = I != NULL ? I->ttl : 0;
	ipv4_protocol = I != NULL ? I->protocol : 0;
	ipv4_protostr = I != NULL ? _ip_protocol[I->protocol] : "<unknown>";
	ipv4_checksum = I != NULL ? ntohs(I->check) : 0;
	ipv4_src = I != NULL ? ntohl(I->saddr) : 0;
	ipv4_dst = I != NULL ? ntohl(I->daddr) : 0;
	ipv4_saddr = I != NULL ? inet_ntoa(&I->saddr) : "<unknown>";
	ipv4_daddr = I != NULL ? inet_ntoa(&I->daddr) : "<unknown>";
	ipv4_hdr = I;
};

translator ipv6info_t < struct ipv6hdr *I > {
	ipv6_ver = _ip_version[(struct iphdr *)I];
	/* Version, class and label are in the first four bytes. */
	ipv6_tclass = I != NULL ? ntohl(*(uint32_t *)I) >> 20 & 0xff : 0;
	ipv6_flow = I != NULL ? ntohl(*(uint32_t *)I) & 0xfffff : 0;
	ipv6_plen = I != NULL ? ntohs(I->payload_len) : 0;
	ipv6_nexthdr = I != NULL ? I->nexthdr : 0;
	ipv6_nextstr = I != NULL ? _ip_protocol[I->nexthdr] : "<unknown>";
	ipv6_hlim = I != NULL ? I->hop_limit : 0;
	ipv6_src = I != NULL ? &I->saddr : (in6_addr_t *)NULL;
	ipv6_dst = I != NULL ? &I->daddr : (in6_addr_t *)NULL;
	ipv6_saddr = I != NULL ? inet_ntoa6(&I->saddr) : "<unknown>";
	ipv6_daddr = I != NULL ? inet_ntoa6(&I->daddr) : "<unknown>";
	ipv6_hdr = I;
};
