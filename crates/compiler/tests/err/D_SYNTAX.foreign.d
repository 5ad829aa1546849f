vnode_t *x; BEGIN { }
