#if !__has_include("/proc/self/environ")
#error "it is not there"
#endif
