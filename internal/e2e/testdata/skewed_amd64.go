package main

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// This file becomes part of cmd/ajo in the program that TestSkewedWorker runs: the clock of the
// whole process is then off by as many seconds as AJO_TEST_SKEW says, or the file that
// AJO_TEST_SKEW_FILE names, at any moment.

// clockGettime is where the runtime calls the kernel's clock_gettime.
//
//go:linkname clockGettime runtime.vdsoClockgettimeSym
var clockGettime uintptr

// skew is in seconds.
var skew atomic.Int64

func init() {
	skew.Store(seconds(os.Getenv("AJO_TEST_SKEW")))
	if clockGettime == 0 {
		panic("the kernel offers no clock_gettime without a system call")
	}
	code := []byte{
		0x53,             // push rbx
		0x55,             // push rbp
		0x48, 0x89, 0xf3, // mov rbx, rsi: where the time goes
		0x89, 0xfd, // mov ebp, edi: which clock
		0x48, 0x83, 0xec, 0x08, // sub rsp, 8
		0x48, 0xb8, // mov rax, …
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(clockGettime))
	code = append(code,
		0xff, 0xd0, // call rax
		0x85, 0xed, // test ebp, ebp
		0x75, 0x10, // jnz: not CLOCK_REALTIME
		0x48, 0xb9) // mov rcx, …
	code = binary.LittleEndian.AppendUint64(code, uint64(uintptr(unsafe.Pointer(&skew))))
	code = append(code,
		0x48, 0x8b, 0x09, // mov rcx, [rcx]
		0x48, 0x01, 0x0b, // add [rbx], rcx
		0x48, 0x83, 0xc4, 0x08, // add rsp, 8
		0x5d, // pop rbp
		0x5b, // pop rbx
		0xc3) // ret
	page, err := syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		panic(err)
	}
	copy(page, code)
	if err := syscall.Mprotect(page, syscall.PROT_READ|syscall.PROT_EXEC); err != nil {
		panic(err)
	}
	clockGettime = uintptr(unsafe.Pointer(&page[0]))
	if file, ok := os.LookupEnv("AJO_TEST_SKEW_FILE"); ok {
		go follow(file)
	}
}

// follow reads the skew from a file again and again. There is none as long as the file is missing.
func follow(file string) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		text, _ := os.ReadFile(file)
		skew.Store(seconds(string(text)))
	}
}

func seconds(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}
