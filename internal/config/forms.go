package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"time"

	"ajo/internal/partition"
)

// headerForm is a name of an HTTP header: without the colon that stands behind it.
var headerForm = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

var rateForm = regexp.MustCompile(`^[1-9][0-9]*-[SMHDsmhd]$`)

// checkForms refuses what is not of the form that its reader expects, before anything is opened.
func (c *Config) checkForms() (bad []error) {
	for name, addr := range map[string]string{"AJO_HTTP_ADDR": c.HTTPAddr, "AJO_OPS_ADDR": c.OpsAddr} {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			bad = append(bad, fmt.Errorf("%s must be host:port, such as 127.0.0.1:8080", name))
		}
	}
	for name, limit := range map[string]string{"AJO_RATE_LIMIT": c.RateLimit, "AJO_RATE_LIMIT_OPEN": c.RateLimitOpen} {
		if !rateForm.MatchString(limit) {
			bad = append(bad, fmt.Errorf("%s must be a count and a period (S, M, H or D), such as 600-M", name))
		}
	}
	// With a header other than the bank's, each event would be answered 200 and not believed.
	for name, header := range map[string]string{"AJO_PROVIDER_SIGNATURE_HEADER": c.ProviderSignatureHeader, "AJO_PROVIDER_TIMESTAMP_HEADER": c.ProviderTimestampHeader} {
		if !headerForm.MatchString(header) {
			bad = append(bad, fmt.Errorf("%s must be the name of an HTTP header, such as provider-signature", name))
		}
	}
	if strings.EqualFold(c.ProviderSignatureHeader, c.ProviderTimestampHeader) {
		bad = append(bad, errors.New("AJO_PROVIDER_SIGNATURE_HEADER and AJO_PROVIDER_TIMESTAMP_HEADER must be two headers"))
	}
	if _, err := mail.ParseAddress(c.MailFrom); err != nil {
		bad = append(bad, errors.New("AJO_MAIL_FROM must be one e-mail address, such as Ajo <no-reply@ajo.example>"))
	}
	return bad
}

// isWeb reports whether raw is an http or https address.
func isWeb(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// kindOf names the values of a type, for people who set them.
func kindOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[[]time.Duration]():
		return "list of durations, such as 30s,5m,1h"
	case reflect.TypeFor[time.Duration]():
		return "duration, such as 30s or 24h"
	case reflect.TypeFor[[]netip.Prefix]():
		return "list of CIDRs, such as 10.0.0.0/8,192.168.1.0/24"
	case reflect.TypeFor[time.Time]():
		return "time, such as 2026-03-02T09:00:00Z"
	case reflect.TypeFor[partition.Size]():
		return "size: month, week or day"
	case reflect.TypeFor[bool]():
		return "boolean: true or false"
	default:
		return "whole number"
	}
}

// checkRates checks the rates of the calls to the bank, which the operators' commands keep to too.
func (c *Config) checkRates() (bad []error) {
	for name, rate := range map[string]int{"AJO_PROVIDER_RATE": c.ProviderRate, "AJO_PROVIDER_POST_RATE": c.ProviderPostRate, "AJO_PROVIDER_RECIPIENT_RATE": c.ProviderRecipientRate} {
		if rate == 0 || rate < -1 {
			bad = append(bad, fmt.Errorf("%s must be above zero, or -1 for no limit", name))
		}
	}
	return bad
}
