/*
 * Input and output: buffers, devices, files. `bufinfo_t`, `devinfo_t` and `fileinfo_t` are made of what the kernel's block layer passes
 * around: a bio, a request, a buffer head; `fds[]` of open files.
 */

typedef struct bufinfo_t {
	int b_flags;
	size_t b_bcount;
	caddr_t b_addr;
	uint64_t b_lblkno;
	uint64_t b_blkno;
	size_t b_resid;
	size_t b_bufsize;
	caddr_t b_iodone;
	int b_error;
	dev_t b_edev;
} bufinfo_t;

typedef struct devinfo_t {
	int dev_major;
	int dev_minor;
	int dev_instance;
	string dev_name;
	string dev_statname;
	string dev_pathname;
} devinfo_t;

typedef struct fileinfo_t {
	string fi_name;
	string fi_dirname;
	string fi_pathname;
	offset_t fi_offset;
	string fi_fs;
	string fi_mount;
	int fi_oflags;
} fileinfo_t;

inline int B_BUSY = 0x000001;
inline int B_DONE = 0x000002;
inline int B_ERROR = 0x000004;
inline int B_PAGEIO = 0x000010;
inline int B_PHYS = 0x000020;
inline int B_READ = 0x000040;
inline int B_WRITE = 0x000100;
inline int B_ASYNC = 0x000400;

/* An operation's number is odd where data goes to the device; bit 11 is set where somebody waits for it. */
inline int _op_flags[uint_t O] = (O & 1 ? B_WRITE : B_READ) | (O & 0x800 ? 0 : B_ASYNC);

/* The block layer's own error numbers. */
inline int _blk_error[int S] =
    S == 0 ? 0 : S == 1 ? 95 : S == 2 ? 110 : S == 3 ? 28 : S == 4 ? 67 : S == 5 ? 121 : S == 6 ? 52 : S == 7 ? 61
    : S == 8 ? 84 : S == 9 ? 12 : S == 11 ? 78 : S == 12 ? 11 : 5;

translator bufinfo_t < struct bio *B > {
	b_flags = _op_flags[B->bi_opf] | B_PHYS | (B->bi_status != 0 ? B_ERROR : 0);
	b_bcount = B->bi_iter.bi_size;
	/* Pages have no address of their own. */
	b_addr = 0;
	b_lblkno = B->bi_iter.bi_sector;
	b_blkno = B->bi_iter.bi_sector;
	b_resid = 0;
	b_bufsize = B->bi_iter.bi_size;
	b_iodone = (caddr_t)B->bi_end_io;
	b_error = _blk_error[B->bi_status];
	b_edev = B->bi_bdev == NULL ? 0 : B->bi_bdev->bd_dev;
};

translator bufinfo_t < struct buffer_head *B > {
	b_flags = 0;
	b_bcount = B->b_size;
	b_addr = B->b_data;
	b_lblkno = B->b_blocknr;
	b_blkno = B->b_blocknr;
	b_resid = 0;
	b_bufsize = B->b_size;
	b_iodone = (caddr_t)B->b_end_io;
	/* Later kernels keep no routine in the buffer head: the bio has it. */
	b_iodone = 0;
	b_error = 0;
	b_edev = B->b_bdev->bd_dev;
};

translator bufinfo_t < struct request *R > {
	b_flags = _op_flags[R->cmd_flags] | B_PHYS;
	b_bcount = R->__data_len;
	b_addr = 0;
	b_lblkno = R->__sector;
	b_blkno = R->__sector;
	b_resid = 0;
	b_bufsize = R->__data_len;
	b_iodone = (caddr_t)R->end_io;
	b_error = 0;
	b_edev = R->part == NULL ? 0 : R->part->bd_dev;
};

/* Everything about a device is known of its block device; without one the file is on another machine. */
translator devinfo_t < struct block_device *D > {
	dev_major = D == NULL ? 0 : getmajor(D->bd_dev);
	dev_minor = D == NULL ? 0 : getminor(D->bd_dev);
	dev_instance = 0;
	dev_name = D == NULL ? "nfs"
	    : D->bd_disk->part0->bd_device.parent == NULL ? stringof(D->bd_disk->disk_name)
	    : D->bd_disk->part0->bd_device.parent->driver == NULL ? stringof(D->bd_disk->disk_name)
	    : stringof(D->bd_disk->part0->bd_device.parent->driver->name);
	dev_statname = D == NULL ? "nfs" : stringof(D->bd_device.kobj.name);
	dev_pathname = D == NULL ? "<nfs>" : strjoin("/dev/", stringof(D->bd_device.kobj.name));
};

translator devinfo_t < struct bio *B > {
	dev_major = xlate <devinfo_t> (B->bi_bdev).dev_major;
	dev_minor = xlate <devinfo_t> (B->bi_bdev).dev_minor;
	dev_instance = 0;
	dev_name = xlate <devinfo_t> (B->bi_bdev).dev_name;
	dev_statname = xlate <devinfo_t> (B->bi_bdev).dev_statname;
	dev_pathname = xlate <devinfo_t> (B->bi_bdev).dev_pathname;
};

translator devinfo_t < struct buffer_head *B > {
	dev_major = xlate <devinfo_t> (B->b_bdev).dev_major;
	dev_minor = xlate <devinfo_t> (B->b_bdev).dev_minor;
	dev_instance = 0;
	dev_name = xlate <devinfo_t> (B->b_bdev).dev_name;
	dev_statname = xlate <devinfo_t> (B->b_bdev).dev_statname;
	dev_pathname = xlate <devinfo_t> (B->b_bdev).dev_pathname;
};

translator devinfo_t < struct request *R > {
	dev_major = xlate <devinfo_t> (R->part).dev_major;
	dev_minor = xlate <devinfo_t> (R->part).dev_minor;
	dev_instance = 0;
	dev_name = xlate <devinfo_t> (R->part).dev_name;
	dev_statname = xlate <devinfo_t> (R->part).dev_statname;
	dev_pathname = xlate <devinfo_t> (R->part).dev_pathname;
};

inline struct mount *_mount[struct vfsmount *V] = (struct mount *)((uintptr_t)V - offsetof(struct mount, mnt));

/* A mount that is its own parent, and not the root, is the kernel's own: a pipe's, a socket's. It is mounted nowhere. */
translator fileinfo_t < struct file *F > {
	fi_name = F == NULL ? "<none>" : stringof(F->f_path.dentry->d_name.name);
	fi_dirname = F == NULL ? "<none>" : dirname(d_path(&F->f_path));
	fi_pathname = F == NULL ? "<none>" : d_path(&F->f_path);
	fi_offset = F == NULL ? 0 : F->f_pos;
	fi_fs = F == NULL ? "<none>" : stringof(F->f_path.mnt->mnt_sb->s_type->name);
	fi_mount = F == NULL ? "<none>"
	    : _mount[F->f_path.mnt]->mnt_parent == _mount[F->f_path.mnt] && F->f_path.mnt != curthread->fs->root.mnt ? "<none>"
	    : _mount_path(&F->f_path, &F->f_path.mnt->mnt_root);
	fi_oflags = F == NULL ? 0 : F->f_flags;
};

/*
 * What a page belongs to: the file whose data it caches. The low bits of its mapping are set where it is a process's own; what a
 * file system keeps of itself belongs to the device, which has no name in a directory.
 */
typedef struct _page_t {
	struct page *head;
	struct inode *file;
	uint64_t index;
	string name;
} _page_t;

translator _page_t < struct page *P > {
	/* A page behind the first of several tells where that one is. */
	head = P != NULL && P->compound_head & 1 ? (struct page *)(P->compound_head - 1) : P;
	head = P != NULL && P->compound_info & 1 ? (struct page *)(P->compound_info - 1) : P;
	file = P == NULL || (uintptr_t)P->mapping < 0xffff000000000000 || ((uintptr_t)P->mapping & 3) != 0
	    ? (struct inode *)NULL : P->mapping->host;
	index = P->__folio_index;
	index = P->index;
};

/* A file's name is in its directory entries: the first of them is as good as any. */
translator _page_t < struct inode *I > {
	name = I == NULL ? "<none>" : I->i_dentry.first == NULL ? "<none>"
	    : stringof(((struct dentry *)((uintptr_t)I->i_dentry.first - offsetof(struct dentry, d_u.d_alias)))->d_name.name);
	name = I == NULL ? "<none>" : I->i_dentry.first == NULL ? "<none>"
	    : stringof(((struct dentry *)((uintptr_t)I->i_dentry.first - offsetof(struct dentry, d_alias)))->d_name.name);
};

inline struct page *_bio_page[struct bio *B] = B->bi_vcnt != 0 ? B->bi_io_vec->bv_page : (struct page *)NULL;
inline struct page *_bio_head[struct bio *B] = xlate <_page_t> (_bio_page[B]).head;

/* Of what is read or written for a file the name and the place are known, not the path. */
translator fileinfo_t < struct bio *B > {
	fi_name = xlate <_page_t> (xlate <_page_t> (_bio_head[B]).file).name;
	fi_dirname = "<unknown>";
	fi_pathname = "<unknown>";
	fi_offset = xlate <_page_t> (_bio_head[B]).file == NULL ? 0
	    : (xlate <_page_t> (_bio_head[B]).index + (_bio_page[B] - _bio_head[B])) * 4096;
	fi_fs = xlate <_page_t> (_bio_head[B]).file == NULL ? "<none>"
	    : stringof(xlate <_page_t> (_bio_head[B]).file->i_sb->s_type->name);
	fi_mount = "<unknown>";
	fi_oflags = 0;
};

translator fileinfo_t < struct buffer_head *B > {
	fi_name = "<unknown>";
	fi_dirname = "<unknown>";
	fi_pathname = "<unknown>";
	fi_offset = 0;
	fi_fs = "<unknown>";
	fi_mount = "<unknown>";
	fi_oflags = 0;
};

translator fileinfo_t < struct request *R > {
	fi_name = R->bio == NULL ? "<none>" : xlate <fileinfo_t> (R->bio).fi_name;
	fi_dirname = "<unknown>";
	fi_pathname = "<unknown>";
	fi_offset = R->bio == NULL ? 0 : xlate <fileinfo_t> (R->bio).fi_offset;
	fi_fs = R->bio == NULL ? "<none>" : xlate <fileinfo_t> (R->bio).fi_fs;
	fi_mount = "<unknown>";
	fi_oflags = 0;
};

inline fileinfo_t fds[int fd] = xlate <fileinfo_t> (
    fd >= 0 && fd < curthread->files->fdt->max_fds ? curthread->files->fdt->fd[fd] : (struct file *)NULL);
