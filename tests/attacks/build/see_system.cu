#if !__has_include("/sys/kernel/uevent_seqnum")
#error "it is not there"
#endif
