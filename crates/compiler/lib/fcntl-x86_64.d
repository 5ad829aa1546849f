/* Flags of open(2) that arm64 has other numbers for. */

inline int O_DIRECT = 040000;
inline int O_LARGEFILE = 0100000;
inline int O_DIRECTORY = 0200000;
inline int O_NOFOLLOW = 0400000;
inline int O_TMPFILE = 020200000;
