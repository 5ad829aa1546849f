/* How a reader-writer lock is held, as the lockstat provider says it. */

inline int RW_WRITER = 0;
inline int RW_READER = 1;
