//go:build !linux

package main

import "syscall"

// endsWithUs does nothing here: only Linux can tie a process to the one that started it.
func endsWithUs() *syscall.SysProcAttr { return nil }
