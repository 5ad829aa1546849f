//! Names of other systems' kernels that scripts use: what Linux has instead. Owns the tables and what is said; whether a name is
//! known is found out before.

use probity_syntax::Diagnostic;

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A member of a kernel struct.
    Member,
    /// A type.
    Type,
    /// A variable or function of the kernel.
    Symbol,
}

/// A name elsewhere, and what to use here.
#[rustfmt::skip]
const MEMBERS: &[(&str, &str)] = &[
    ("t_procp", "`curthread->group_leader` for the process, and `curpsinfo`"),
    ("t_pri", "`curlwpsinfo->pr_pri`, or `curthread->prio`"),
    ("t_cpu", "`cpu` and `curcpu`; a run queue's length is in `sdt:sched` and the kernel's `struct rq`"),
    ("t_lwp", "`curlwpsinfo`"),
    ("t_tid", "`tid`"),
    ("t_cred", "`curthread->cred`"),
    ("t_state", "`curlwpsinfo->pr_state`, or `curthread->__state`"),
    ("t_start", "`curthread->start_time`"),
    ("p_pidp", "`pid`"), ("p_pid", "`pid`"), ("p_ppid", "`ppid`"),
    ("p_user", "`curpsinfo` and `curthread->mm`"),
    ("p_exec", "`curthread->mm->exe_file`"), ("p_as", "`curthread->mm`"), ("p_parent", "`curthread->real_parent`"),
    ("p_comm", "`curpsinfo->pr_fname`, or `execname`"), ("td_name", "`curlwpsinfo->pr_name`"), ("td_tid", "`tid`"),
    ("td_proc", "`curpsinfo`"), ("cpu_info", "/proc/cpuinfo"),
    ("v_path", "`d_path()` of a `struct path`"), ("v_vfsp", "`struct super_block`: `i_sb` of an inode"),
];

#[rustfmt::skip]
const TYPES: &[(&str, &str)] = &[
    ("proc_t", "`struct task_struct`"), ("klwp_t", "`struct task_struct`"), ("user_t", "`struct task_struct`"),
    ("vnode_t", "`struct inode` and `struct file`"), ("struct vnode", "`struct inode` and `struct file`"),
    ("vfs_t", "`struct super_block`"), ("file_t", "`struct file`"), ("uio_t", "`struct iov_iter`"),
    ("struct uio", "`struct iov_iter`"), ("cred_t", "`struct cred`"), ("buf_t", "`struct bio`"), ("struct buf", "`struct bio`"),
    ("mblk_t", "`struct sk_buff`"), ("struct mbuf", "`struct sk_buff`"), ("queue_t", "`struct sk_buff`"),
    ("conn_t", "`struct sock`"), ("tcp_t", "`struct tcp_sock`"), ("struct tcpcb", "`struct tcp_sock`"),
    ("struct inpcb", "`struct inet_sock`"), ("ipha_t", "`struct iphdr`"), ("ip6_t", "`struct ipv6hdr`"),
    ("tcph_t", "`struct tcphdr`"), ("udpha_t", "`struct udphdr`"), ("sonode_t", "`struct socket`"),
    ("ill_t", "`struct net_device`"), ("struct ifnet", "`struct net_device`"), ("taskq_t", "`struct workqueue_struct`"),
    ("kmutex_t", "`struct mutex`"), ("krwlock_t", "`struct rw_semaphore`"), ("kmem_cache_t", "`struct kmem_cache`"),
    ("struct proc", "`struct task_struct`"), ("struct thread", "`struct task_struct`"), ("struct bio_queue_head", "`struct request_queue`"),
    ("page_t", "`struct page` and `struct folio`"), ("cpu_t", "`struct rq`"), ("disp_t", "`struct rq`"),
    ("scsi_pkt_t", "`struct scsi_cmnd`"), ("struct scsi_pkt", "`struct scsi_cmnd`"), ("sata_pkt_t", "`struct ata_queued_cmd`"),
    ("nge_t", "`struct net_device`"), ("mac_client_impl_t", "`struct net_device`"), ("mpt_t", "`struct MPT3SAS_ADAPTER`"),
    ("struct vnop_read_args", "`struct kiocb`"), ("struct vnop_write_args", "`struct kiocb`"),
    ("rfs4_deleg_state_t", "`struct nfs4_delegation`"), ("struct smb_request", "`struct ksmbd_work`"),
];

#[rustfmt::skip]
const SYMBOLS: &[(&str, &str)] = &[
    ("freemem", "the tracepoints of sdt:vmscan, or /proc/meminfo"), ("availrmem", "/proc/meminfo"), ("k_anoninfo", "/proc/meminfo"),
    ("physmem", "/proc/meminfo"), ("swapfs_reserve", "/proc/swaps"), ("rootvfs", "the fs of a thread: `curthread->fs->root`"),
    ("rootdir", "`curthread->fs->root`"), ("hp_avenrun", "`` `avenrun ``"), ("utsname", "`` `init_uts_ns ``"),
    ("mpid", "proc:::create"), ("devnamesp", "io:::start with args[1]->dev_name"), ("lbolt", "`` `jiffies ``"),
    ("time", "`walltimestamp`"), ("hz", "/proc/stat"), ("ncpus", "`` `nr_cpu_ids ``"), ("ncpus_online", "`` `nr_cpu_ids ``"),
    ("kas", "`` `init_mm ``"), ("p0", "`` `init_task ``"), ("fsf_total", "the tracepoints of sdt:writeback"),
    ("cpu_list", "`curcpu`"), ("panicstr", "/proc/sys/kernel/panic"),
];

/// What to say of a name that is another system's.
pub(super) fn foreign(kind: Kind, name: &str) -> Option<String> {
    let table = match kind {
        Kind::Member => MEMBERS,
        Kind::Type => TYPES,
        Kind::Symbol => SYMBOLS,
    };
    let (_, instead) = table.iter().find(|(theirs, _)| *theirs == name)?;
    Some(format!("`{name}` is of another system's kernel; Linux has {instead}"))
}

/// Says it, if there is something to say.
pub(super) fn or_help(d: Diagnostic, help: Option<String>) -> Diagnostic {
    match help {
        Some(help) => d.help(help),
        None => d,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_table() {
        assert!(foreign(Kind::Member, "t_procp").is_some_and(|text| text.contains("group_leader")));
        assert!(foreign(Kind::Type, "struct vnode").is_some_and(|text| text.contains("struct inode")));
        assert!(foreign(Kind::Symbol, "hp_avenrun").is_some_and(|text| text.contains("avenrun")));
        assert_eq!(foreign(Kind::Type, "pid_t"), None);
    }
}
