#if !__has_include("/dev/zero")
#error "it is not there"
#endif
