package fakebank

import (
	"fmt"
	"strings"
)

// nubanWeights apply to the six digits of the bank code and the nine of the serial number.
const nubanWeights = "373373" + "373373373"

// NUBAN returns the account number of a serial (nine digits, 0–999,999,999) at a bank: the serial
// and its check digit. It panics on a code that is not three, five or six digits, and on a serial
// out of range.
func NUBAN(bankCode string, serial int) string {
	if serial < 0 || serial > 999_999_999 {
		panic(fmt.Sprintf("fakebank: serial %d is not nine digits", serial))
	}
	digits := fmt.Sprintf("%09d", serial)
	check, ok := checkDigit(bankCode, digits)
	if !ok {
		panic(fmt.Sprintf("fakebank: bank code %q is not three, five or six digits", bankCode))
	}
	return digits + string(check)
}

// ValidNUBAN reports whether number is ten digits whose last is the check digit of the others at
// that bank.
func ValidNUBAN(bankCode, number string) bool {
	if len(number) != 10 || !allDigits(number) {
		return false
	}
	check, ok := checkDigit(bankCode, number[:9])
	return ok && check == number[9]
}

func checkDigit(bankCode, serial string) (byte, bool) {
	switch len(bankCode) {
	case 3:
		bankCode = "000" + bankCode
	case 5:
		bankCode = "9" + bankCode
	case 6:
	default:
		return 0, false
	}
	if !allDigits(bankCode) {
		return 0, false
	}
	sum := 0
	for i, c := range []byte(bankCode + serial) {
		sum += int(c-'0') * int(nubanWeights[i]-'0')
	}
	return '0' + byte((10-sum%10)%10), true
}

func allDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
