/* Constants of networking: families of addresses, protocols, the hook directions of packets; `conninfo_t`. */

inline int AF_UNSPEC = 0;
inline int AF_UNIX = 1;
inline int AF_LOCAL = 1;
inline int AF_INET = 2;
inline int AF_AX25 = 3;
inline int AF_IPX = 4;
inline int AF_APPLETALK = 5;
inline int AF_NETROM = 6;
inline int AF_BRIDGE = 7;
inline int AF_ATMPVC = 8;
inline int AF_X25 = 9;
inline int AF_INET6 = 10;
inline int AF_ROSE = 11;
inline int AF_DECnet = 12;
inline int AF_NETBEUI = 13;
inline int AF_SECURITY = 14;
inline int AF_KEY = 15;
inline int AF_NETLINK = 16;
inline int AF_ROUTE = 16;
inline int AF_PACKET = 17;
inline int AF_ASH = 18;
inline int AF_ECONET = 19;
inline int AF_ATMSVC = 20;
inline int AF_RDS = 21;
inline int AF_SNA = 22;
inline int AF_IRDA = 23;
inline int AF_PPPOX = 24;
inline int AF_WANPIPE = 25;
inline int AF_LLC = 26;
inline int AF_IB = 27;
inline int AF_MPLS = 28;
inline int AF_CAN = 29;
inline int AF_TIPC = 30;
inline int AF_BLUETOOTH = 31;
inline int AF_IUCV = 32;
inline int AF_RXRPC = 33;
inline int AF_ISDN = 34;
inline int AF_PHONET = 35;
inline int AF_IEEE802154 = 36;
inline int AF_CAIF = 37;
inline int AF_ALG = 38;
inline int AF_NFC = 39;
inline int AF_VSOCK = 40;
inline int AF_KCM = 41;
inline int AF_QIPCRTR = 42;
inline int AF_SMC = 43;
inline int AF_XDP = 44;

inline int IPPROTO_IP = 0;
inline int IPPROTO_HOPOPTS = 0;
inline int IPPROTO_ICMP = 1;
inline int IPPROTO_IGMP = 2;
inline int IPPROTO_IPIP = 4;
inline int IPPROTO_ENCAP = 4;
inline int IPPROTO_TCP = 6;
inline int IPPROTO_EGP = 8;
inline int IPPROTO_PUP = 12;
inline int IPPROTO_UDP = 17;
inline int IPPROTO_IDP = 22;
inline int IPPROTO_TP = 29;
inline int IPPROTO_DCCP = 33;
inline int IPPROTO_IPV6 = 41;
inline int IPPROTO_ROUTING = 43;
inline int IPPROTO_FRAGMENT = 44;
inline int IPPROTO_RSVP = 46;
inline int IPPROTO_GRE = 47;
inline int IPPROTO_ESP = 50;
inline int IPPROTO_AH = 51;
inline int IPPROTO_ICMPV6 = 58;
inline int IPPROTO_NONE = 59;
inline int IPPROTO_DSTOPTS = 60;
inline int IPPROTO_OSPF = 89;
inline int IPPROTO_MTP = 92;
inline int IPPROTO_BEETPH = 94;
inline int IPPROTO_PIM = 103;
inline int IPPROTO_COMP = 108;
inline int IPPROTO_SCTP = 132;
inline int IPPROTO_MH = 135;
inline int IPPROTO_UDPLITE = 136;
inline int IPPROTO_MPLS = 137;
inline int IPPROTO_RAW = 255;

inline int ARPHRD_ETHER = 1;
inline int ARPHRD_INFINIBAND = 32;
inline int ARPHRD_LOOPBACK = 772;

inline int INADDR_ANY = 0;
inline int INET_ADDRSTRLEN = 16;
inline int INET6_ADDRSTRLEN = 46;

inline int SOCK_STREAM = 1;
inline int SOCK_DGRAM = 2;
inline int SOCK_RAW = 3;
inline int SOCK_RDM = 4;
inline int SOCK_SEQPACKET = 5;
inline int SOCK_PACKET = 10;

typedef struct conninfo_t {
	string ci_local;
	string ci_remote;
	string ci_protocol;
} conninfo_t;

/* A socket's ends, as its addresses and their ports are known to the kernel. */
translator conninfo_t < struct sock *S > {
	ci_local = S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_rcv_saddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_rcv_saddr) : "<unknown>";
	ci_remote = S->__sk_common.skc_family == 2 ? inet_ntoa(&S->__sk_common.skc_daddr)
	    : S->__sk_common.skc_family == 10 ? inet_ntoa6(&S->__sk_common.skc_v6_daddr) : "<unknown>";
	ci_protocol = S->__sk_common.skc_family == 2 ? "ipv4" : S->__sk_common.skc_family == 10 ? "ipv6" : "<unknown>";
};
