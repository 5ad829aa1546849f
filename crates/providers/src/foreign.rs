//! What other systems call differently: probes of Solaris, illumos, macOS and FreeBSD that scripts ask for, and what to ask for here.
//!
//! Owns one table. Names that one provider of ours has under another name are that provider's ([`crate::Provider::hint`]).

use probity_ir::{ProbeDesc, glob};

/// A provider, module, function and name elsewhere (globs; empty matches all), whose it is, and what to use here.
struct Foreign(&'static str, &'static str, &'static str, &'static str, &'static str);

const SOLARIS: &str = "Solaris";
const BSD: &str = "FreeBSD";
const MAC: &str = "macOS";
const PROGRAMS: &str = "";

#[rustfmt::skip]
const TABLE: &[Foreign] = &[
    // Statistics of the whole system.
    Foreign("sysinfo", "", "readch|sysread", SOLARIS, "syscall::read:entry, with the bytes in arg0 of syscall::read:return"),
    Foreign("sysinfo", "", "writech|syswrite", SOLARIS, "syscall::write:entry, with the bytes in arg0 of syscall::write:return"),
    Foreign("sysinfo", "", "bread|bwrite|lread|lwrite|phread|phwrite", SOLARIS, "io:::start, whose args[0]->b_flags tell reads from writes"),
    Foreign("sysinfo", "", "sysexec", SOLARIS, "proc:::exec"),
    Foreign("sysinfo", "", "sysfork|sysvfork", SOLARIS, "proc:::create"),
    Foreign("sysinfo", "", "nthreads", SOLARIS, "proc:::lwp-create"),
    Foreign("sysinfo", "", "pswitch|inv_swtch", SOLARIS, "sched:::off-cpu"),
    Foreign("sysinfo", "", "idlethread", SOLARIS, "sdt:power::cpu_idle"),
    Foreign("sysinfo", "", "intrblk|intr", SOLARIS, "sdt:irq::irq_handler_entry"),
    Foreign("sysinfo", "", "xcalls", SOLARIS, "sdt:csd::csd_queue_cpu"),
    Foreign("sysinfo", "", "namei|ufs*", SOLARIS, "fbt::filename_lookup:entry"),
    Foreign("sysinfo", "", "mutex_adenters|rw_*", SOLARIS, "sdt:lock::contention_begin"),
    Foreign("sysinfo", "", "", SOLARIS, "the providers syscall, sched, proc and io, which show each event"),
    Foreign("vminfo", "", "as_fault|maj_fault|hat_fault", SOLARIS, "sdt:exceptions::page_fault_user"),
    Foreign("vminfo", "", "kernel_asflt", SOLARIS, "sdt:exceptions::page_fault_kernel"),
    Foreign("vminfo", "", "prot_fault|cow_fault", SOLARIS, "fbt::do_wp_page:entry"),
    Foreign("vminfo", "", "zfod", SOLARIS, "fbt::do_anonymous_page:entry"),
    Foreign("vminfo", "", "anonpgin|swapin|pgswapin", SOLARIS, "fbt::swap_read_folio:entry (swap_readpage before 6.6)"),
    Foreign("vminfo", "", "anonpgout|swapout|pgswapout", SOLARIS, "fbt::swap_writeout:entry (swap_writepage before 6.17)"),
    Foreign("vminfo", "", "fspgin|execpgin|pgpgin|pgin", SOLARIS, "sdt:filemap::mm_filemap_add_to_page_cache"),
    Foreign("vminfo", "", "fspgout|execpgout|pgpgout|pgout", SOLARIS, "sdt:writeback::writeback_written"),
    Foreign("vminfo", "", "scan|rev|pgrrun", SOLARIS, "sdt:vmscan::mm_vmscan_lru_shrink_inactive"),
    Foreign("vminfo", "", "", SOLARIS, "the tracepoints of sdt:exceptions, sdt:filemap and sdt:vmscan"),
    Foreign("mib", "", "tcp*", SOLARIS, "the provider tcp: tcp:::send, tcp:::receive, tcp:::connect-established and the like"),
    Foreign("mib", "", "udp*", SOLARIS, "the provider udp: udp:::send and udp:::receive"),
    Foreign("mib", "", "icmp*", SOLARIS, "fbt::icmp_rcv:entry and fbt::icmp_push_reply:entry"),
    Foreign("mib", "", "", SOLARIS, "the providers ip, tcp and udp"),
    Foreign("fpuinfo", "", "", SOLARIS, "the tracepoints of sdt:x86_fpu"),
    Foreign("fsinfo", "", "read", SOLARIS, "fbt::vfs_read:entry"),
    Foreign("fsinfo", "", "write", SOLARIS, "fbt::vfs_write:entry"),
    Foreign("fsinfo", "", "open|create", SOLARIS, "fbt::vfs_open:entry"),
    Foreign("fsinfo", "", "", SOLARIS, "fbt::vfs_*:entry"),
    Foreign("vfs", "", "", BSD, "fbt::vfs_*:entry"),
    Foreign("sysevent", "", "", SOLARIS, "sdt: the tracepoints of the subsystem in question"),
    Foreign("nfsv3|nfsv4", "", "", SOLARIS, "the tracepoints of sdt:nfsd, when the nfsd module is loaded"),
    Foreign("nfsv3client|nfsv4client", "", "", SOLARIS, "the tracepoints of sdt:nfs and sdt:nfs4"),
    Foreign("smb|smb2", "", "", SOLARIS, "fbt:ksmbd::entry, when the ksmbd module is loaded"),
    Foreign("iscsi", "", "", SOLARIS, "the tracepoints of sdt:iscsi and sdt:target"),
    Foreign("fc|srp|xpv|fasttrap|kerberos", "", "", SOLARIS, "fbt: the functions of the driver in question"),
    Foreign("dtrace_*|machtrace|mach_trap", "", "", MAC, "syscall"),
    Foreign("vm|magmalloc|objc*|oneshot*", "", "", MAC, "pid or uprobe: the functions of the program in question"),
    Foreign("plockstat*", "", "", SOLARIS, "uprobe:libc.so.6:pthread_mutex_lock:entry and its kin"),
    Foreign("sdt", "", "interrupt-start|interrupt-complete", SOLARIS, "sdt:irq::irq_handler_entry and irq_handler_exit"),
    Foreign("", "", "callout-start|callout-end", SOLARIS, "sdt:timer::timer_expire_entry and timer_expire_exit"),
    Foreign("sdt", "", "taskq-*", SOLARIS, "the tracepoints of sdt:workqueue"),
    Foreign("sdt", "mpt", "", SOLARIS, "the tracepoints of sdt:scsi"),
    // Functions of other kernels.
    Foreign("fbt", "fop_read|VNOP_READ", "", SOLARIS, "fbt::vfs_read:entry"),
    Foreign("fbt", "fop_write|VNOP_WRITE", "", SOLARIS, "fbt::vfs_write:entry"),
    Foreign("fbt", "fop_open|VNOP_OPEN", "", SOLARIS, "fbt::vfs_open:entry"),
    Foreign("fbt", "fop_create|VNOP_CREATE", "", SOLARIS, "fbt::vfs_create:entry"),
    Foreign("fbt", "fop_remove|VNOP_REMOVE", "", SOLARIS, "fbt::vfs_unlink:entry"),
    Foreign("fbt", "fop_rename|VNOP_RENAME", "", SOLARIS, "fbt::vfs_rename:entry"),
    Foreign("fbt", "fop_fsync", "", SOLARIS, "fbt::vfs_fsync_range:entry"),
    Foreign("fbt", "fop_*|VNOP_*|vn_*|vop_*", "", SOLARIS, "fbt::vfs_*:entry"),
    Foreign("fbt", "ufs_*|tmp_*|hfs_vnop_*|pcfs_*|hsfs_*", "", SOLARIS, "the functions of the file system here: fbt:ext4::entry, fbt:xfs::entry"),
    Foreign("fbt", "dnlc_lookup", "", SOLARIS, "fbt::lookup_fast:entry"),
    Foreign("fbt", "zfs_*|zio_*|spa_*|arc_*|dmu_*|vdev_*|txg_*", "", SOLARIS, "the same functions where the module zfs is loaded"),
    Foreign("fbt", "nfs3_*|nfs4_*", "", SOLARIS, "the functions of the module nfs: fbt:nfs::entry"),
    Foreign("fbt", "rfs3_*|rfs4_*", "", SOLARIS, "the functions of the module nfsd: fbt:nfsd::entry"),
    Foreign("fbt", "smb*", "", SOLARIS, "the functions of the modules cifs and ksmbd"),
    Foreign("fbt", "bdev_strategy|sdstrategy|ssdstrategy|g_vfs_strategy|bioq_disksort", "", SOLARIS, "io:::start"),
    Foreign("fbt", "sd_*|scsi_transport|scsi_init_pkt|scsi_destroy_pkt|dadk_*|mpt_*|mps_*|nv_*|sata_*", "", SOLARIS, "the tracepoints of sdt:scsi and sdt:block"),
    Foreign("fbt", "kmem_alloc|kmem_zalloc", "", SOLARIS, "sdt:kmem::kmalloc"),
    Foreign("fbt", "kmem_cache_alloc", "", SOLARIS, "sdt:kmem::kmem_cache_alloc"),
    Foreign("fbt", "kmem_free|kmem_cache_free", "", SOLARIS, "sdt:kmem::kfree and kmem_cache_free"),
    Foreign("fbt", "segkmem_*|as_*|seg*|anon_*|page_*", "", SOLARIS, "fbt::handle_mm_fault:entry and the tracepoints of sdt:kmem"),
    Foreign("fbt", "pagefault|as_fault", "", SOLARIS, "sdt:exceptions::page_fault_user"),
    Foreign("fbt", "fsflush*", "", SOLARIS, "the tracepoints of sdt:writeback"),
    Foreign("fbt", "gexec|exec_common", "", SOLARIS, "proc:::exec"),
    Foreign("fbt", "swtch|disp|setbackdq|setfrontdq|dispdeq", "", SOLARIS, "sched:::on-cpu, off-cpu, enqueue and dequeue"),
    Foreign("fbt", "mutex_enter|mutex_vector_enter|rw_enter*", "", SOLARIS, "fbt::mutex_lock:entry, or sdt:lock::contention_begin"),
    Foreign("fbt", "cv_wait*|cv_timedwait*", "", SOLARIS, "sched:::off-cpu"),
    Foreign("fbt", "ip_input|ip_rput*|netisr_queue", "", SOLARIS, "fbt::ip_rcv:entry, or ip:::receive"),
    Foreign("fbt", "ip_output|ip_xmit|ire_send*", "", SOLARIS, "fbt::ip_output:entry, or ip:::send"),
    Foreign("fbt", "tcp_input|tcp_rput_data|tcp_input_data", "", SOLARIS, "fbt::tcp_v4_rcv:entry, or tcp:::receive"),
    Foreign("fbt", "tcp_output|tcp_send_data|tcp_wput_data", "", SOLARIS, "fbt::__tcp_transmit_skb:entry, or tcp:::send"),
    Foreign("fbt", "tcp_*", "", SOLARIS, "the provider tcp, or the functions that `-l -n 'fbt::tcp_*:entry'` lists"),
    Foreign("fbt", "udp_*", "", SOLARIS, "the provider udp, or the functions that `-l -n 'fbt::udp_*:entry'` lists"),
    Foreign("fbt", "icmp_inbound*", "", SOLARIS, "fbt::icmp_rcv:entry"),
    Foreign("fbt", "putnext|mac_*|dld_*|nge_*|sockfs*|soc*", "", SOLARIS, "the tracepoints of sdt:net: net_dev_queue, netif_receive_skb"),
    Foreign("fbt", "xdr_*", "", SOLARIS, "the tracepoints of sdt:sunrpc"),
    Foreign("fbt", "idm_*|iscsi_*|fctl_*|fcp_*", "", SOLARIS, "the tracepoints of sdt:iscsi and sdt:scsi"),
    Foreign("fbt", "cnwrite|cnread", "", SOLARIS, "fbt::tty_write:entry"),
    Foreign("fbt", "bus_dma*", "", BSD, "the tracepoints of sdt:dma"),
    // Providers that programs bring along.
    Foreign("hotspot*|hotspot_jni*|python*|perl*|php*|ruby*|mysql*|postgresql*|node*|http*|apache*|javascript*|mozilla*|sh*|bash*|tcl*|X*|xserver*|trace*|dovecot*|squid*|erlang*", "", "", PROGRAMS, ""),
];

/// Whether one of several globs matches.
fn any(globs: &str, name: &str) -> bool {
    globs.is_empty() || globs.split('|').any(|g| glob(g, name))
}

/// What to say of a description that is right on another system: whose it is, and what shows the same here.
pub fn foreign(pattern: &ProbeDesc) -> Option<String> {
    let ProbeDesc { provider, module, function, name } = pattern;
    let found = TABLE.iter().find(|Foreign(of, place, what, ..)| {
        // A glob is asked for by its own text: `nfsv3*` is near enough to `nfsv3`.
        let plain = provider.trim_end_matches(['*', '?']);
        let provider_fits = of.is_empty() || any(of, provider) || any(of, plain) && !plain.is_empty();
        let place_fits = place.is_empty()
            || [function, module].iter().any(|field| !field.is_empty() && any(place, field.trim_end_matches('*')));
        let name_fits = what.is_empty() || !name.is_empty() && any(what, name);
        provider_fits && place_fits && name_fits && !(of.is_empty() && provider.is_empty() && name.is_empty())
    })?;
    let Foreign(of, place, what, system, instead) = found;
    if system.is_empty() {
        let plain = provider.trim_end_matches(['*', '?']);
        return Some(format!(
            "`{plain}` is a provider that programs bring along: name a process that has it, as in {plain}1234:::, or allow none with -Z"
        ));
    }
    let name = match (place.is_empty(), what.is_empty()) {
        (false, _) if !function.is_empty() => format!("the function {function}"),
        (false, _) => format!("the module {module}"),
        (true, false) => format!("{}:::{name}", if provider.is_empty() { *of } else { provider.as_str() }),
        (true, true) => format!("the provider {provider}"),
    };
    Some(format!("{name} is {system}'s; Linux has {instead}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(provider: &str, module: &str, function: &str, name: &str) -> String {
        foreign(&ProbeDesc::new(provider, module, function, name)).unwrap_or_default()
    }

    #[test]
    fn names_of_other_systems() {
        assert!(of("sysinfo", "", "", "readch").contains("syscall::read:entry"));
        assert!(of("sysinfo", "", "", "").contains("the provider sysinfo is Solaris's"));
        assert!(
            of("fbt", "", "fop_read", "entry")
                .contains("the function fop_read is Solaris's; Linux has fbt::vfs_read:entry")
        );
        assert!(of("vfs", "namecache", "lookup", "hit").contains("FreeBSD"));
        assert!(of("mib", "", "", "tcpOutDataBytes").contains("tcp:::send"));
        assert!(of("hotspot*", "", "", "method-entry").contains("hotspot1234:::"));
        assert!(of("", "", "", "callout-start").contains("timer_expire_entry"));
        for ours in
            [("fbt", "", "vfs_read", "entry"), ("", "", "", ""), ("io", "", "", "start"), ("proc", "", "", "exec")]
        {
            assert_eq!(of(ours.0, ours.1, ours.2, ours.3), "", "{ours:?}");
        }
    }
}
