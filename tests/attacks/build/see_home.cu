#if !__has_include("/root/.bashrc")
#error "it is not there"
#endif
