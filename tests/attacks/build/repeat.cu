__asm__(".rept 100000000\n.long 1\n.endr\n");
